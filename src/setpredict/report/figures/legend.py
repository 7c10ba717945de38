"""What the colors of a picture mean: one legend below the whole figure."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from setpredict.data.task import SetTask
from setpredict.report.figures.drawing import MANY, shown_as_text
from setpredict.report.figures.palette import GRAY, INK, LINE_COLORS, MASK_COLORMAP, RIGHT, WRONG

HEIGHT = 0.25
"""How much higher a legend makes a figure, in inches."""
MOST_CATEGORIES = 12
"""In a legend; the names at the elements tell the others."""


def picture_legend(task: SetTask) -> list[Artist]:
    """What is drawn of a prediction of this kind."""
    if shown_as_text(task):
        return [Line2D([], [], color=WRONG, marker="$x$", linestyle="", label="red, bold: wrong or surplus")]
    if task.kind == "boxes":
        right = Line2D([], [], color=RIGHT, label="right: IoU ≥ ½" + ", same class" * bool(task.groups))
        wrong = Line2D([], [], color=WRONG, linestyle="--", label="wrong")
        return [right, wrong, Line2D([], [], color=RIGHT, alpha=0.3, label="faint: small mask")]
    if task.kind == "vectors":
        names = ("0", "½", "1")
        shades = [Patch(color=_shade(value), label=name) for value, name in zip((0.0, 0.5, 1.0), names)]
        return [Line2D([], [], linestyle="", label="left of the line: mask; then one column per feature"), *shades]
    dots = [(1.0, "mask 1"), (0.5, "½"), (0.1, "0.1")] if task.variable else [(1.0, "predicted")]
    found: list[Artist] = [_marker("o", _shade(1 - mask), name) for mask, name in dots]
    if task.max_size <= MANY:
        found.append(Line2D([], [], marker="o", linestyle="", fillstyle="none", color=GRAY, label="target"))
    return [*found, _marker("x", INK, "outside of the frame")]


def category_legend(task: SetTask) -> list[Artist]:
    """The colors of the categories of the first group; none if elements have no categories."""
    if not task.groups:
        return []
    names = task.categories[next(iter(task.groups))]
    shown = [Patch(color=LINE_COLORS[k % len(LINE_COLORS)], label=name) for k, name in enumerate(names)]
    return list(shown[:MOST_CATEGORIES])


def add_legend(figure: Figure, entries: Sequence[Artist]) -> None:
    """A legend below everything else, in a figure with constrained layout."""
    if entries:
        style = {"fontsize": 6, "frameon": False, "handlelength": 1.2, "columnspacing": 1.2}
        figure.legend(handles=list(entries), loc="outside lower center", ncols=len(entries), **style)


def _marker(marker: str, color: object, label: str) -> Line2D:
    return Line2D([], [], marker=marker, linestyle="", markersize=4, color=color, label=label)  # pyright: ignore[reportArgumentType]


def _shade(value: float) -> tuple[float, float, float, float]:
    return colormaps[MASK_COLORMAP](value)
