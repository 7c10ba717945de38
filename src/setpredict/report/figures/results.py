"""The figures of RESULTS.md: training curves of a table, or the answers to its many small questions."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from setpredict.report.figures.palette import FAINT, LINES, STYLES
from setpredict.report.tables.text import heading, percent

Entry = Mapping[str, Any]
Groups = Mapping[str, Mapping[str, str]]


def curves(entries: Sequence[Entry], name: str) -> Figure:
    """Validations by a metric against training time, a line a run."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots()
    labels = list(dict.fromkeys(e["row"] for e in entries))
    for entry in entries:
        i = labels.index(entry["row"])
        style: dict[str, Any] = {"color": LINES[i % len(LINES)], "linestyle": STYLES[i % len(STYLES)]}
        label = entry["row"] if entry is next(e for e in entries if e["row"] == entry["row"]) else None
        axes.plot(*_own(entry, entries, name), label=label, **style)
    times = [m for entry in entries for m in entry["curve"]["minutes"]]
    if 0 < 50 * min(times) < max(times):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    if not percent(name):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set(xlabel="minutes of training", ylabel=f"validation {heading(name)}")
    axes.grid(alpha=0.25, which="both")
    figure.legend(fontsize=8, loc="outside right upper")
    return figure


def _own(entry: Entry, entries: Sequence[Entry], name: str) -> tuple[list[float], list[float]]:
    """A run's minutes and values, without those of the run that it went on from but for the last."""
    minutes, values = entry["curve"]["minutes"], _scaled(entry["curve"][name], name)
    first = [e for e in entries if e["row"] == entry.get("after") and e.get("seed") == entry["seed"]]
    start = max(first[0]["curve"]["minutes"]) if first else 0.0
    kept = [(m, v) for m, v in zip(minutes, values) if m >= start]
    return [m for m, _ in kept], [v for _, v in kept]


def answers(entries: Sequence[Entry], groups: Groups, name: str) -> Figure:
    """A panel a question: the test score of every answer, at each number of steps."""
    columns = 2
    rows = -(-len(groups) // columns)
    heights = [_height(groups, i, columns) for i in range(rows)]
    figure = Figure(figsize=(9, 0.6 + sum(heights)), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, height_ratios=heights).ravel().tolist()
    for axes, (question, group) in zip(panels, groups.items()):
        _answers(axes, entries, group, name)
        axes.set_title(fill(question, 50), fontsize=9, loc="left")
    for axes in panels[len(groups) :]:
        axes.set_axis_off()
    panels[0].legend(fontsize=7, loc="best")
    figure.supxlabel(f"test {heading(name)}", fontsize=9)
    return figure


def _answers(axes: Axes, entries: Sequence[Entry], group: Mapping[str, str], name: str) -> None:
    for i, row in enumerate(group.values()):
        mine = [e["evaluations"] for e in entries if e["row"] == row]
        for j, first in enumerate(mine[0]):
            values = _scaled([m[j]["metrics"][name] for m in mine], name)
            label = f"{first['steps']} steps" if i == 0 else None
            axes.plot(values, [i] * len(values), "os^"[j % 3], color=LINES[j % len(LINES)], label=label)
    axes.set_yticks(range(len(group)), list(group), fontsize=8)
    axes.set_ylim(len(group) - 0.5, -0.5)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", labelsize=8, labelbottom=True)
    axes.grid(axis="x", alpha=0.25)
    axes.axvline(_scaled([_base(entries, group, name)], name)[0], color=FAINT, linewidth=1, zorder=0)


def _base(entries: Sequence[Entry], group: Mapping[str, str], name: str) -> float:
    """The first answer's score: the line that the others are compared with."""
    first = next(e for e in entries if e["row"] == next(iter(group.values())))
    return first["evaluations"][0]["metrics"][name]


def _height(groups: Groups, row: int, columns: int) -> float:
    """Inches for a row of panels, by the most answers in it."""
    return 0.55 + 0.24 * max(len(g) for g in list(groups.values())[row * columns : (row + 1) * columns])


def _scaled(values: Sequence[float], name: str) -> list[float]:
    return [(100 if percent(name) else 1000) * v for v in values]


def svg(figure: Figure) -> str:
    """The same picture gives the same file."""
    with rc_context({"svg.hashsalt": "setpredict", "svg.fonttype": "none"}):
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()
