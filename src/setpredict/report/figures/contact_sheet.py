"""A sheet of examples from a task's training split, as one picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from setpredict.data.task import SetTask
from setpredict.core.files import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 4
COLORS = ("#e41a1c", "#377eb8", "#4daf4a", "#984ea3", "#ff7f00", "#ffd92f", "#a65628", "#f781bf")


def contact_sheet(task: SetTask, out: Path, count: int = 12) -> Path:
    """Draw the first samples of the training split: the image, if there is one, with the set upon it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = min(count, len(task.train))
    batch = task.train.batch(np.arange(count), 0)
    rows = -(-count // COLUMNS)
    figure = Figure(figsize=(3 * COLUMNS, 3.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    for i, elements in enumerate(batch.target.to_list()):
        axes = figure.add_subplot(rows, COLUMNS, i + 1)
        image = None
        if task.input_kind == "image":
            assert isinstance(batch.input, torch.Tensor)
            image = batch.input[i].permute(1, 2, 0).numpy()
        draw_set(axes, task, elements, image)
        axes.set_title(f"{i}: {len(elements)} element{'s' * (len(elements) != 1)}", fontsize=9)
    with atomic(out) as temporary:
        figure.savefig(temporary, format="png", dpi=80)
    return out


def draw_set(axes: Axes, task: SetTask, elements: torch.Tensor, image: np.ndarray | None) -> None:
    """One set (n, D) on `axes`, over its image if there is one."""
    axes.set_xticks([])
    axes.set_yticks([])
    side = image.shape[0] if image is not None else 1
    if image is not None:
        axes.imshow(image)
    color = _colors(task, elements)
    values = elements.numpy()
    if task.kind == "boxes":
        from matplotlib.patches import Rectangle

        for i, (left, top, right, bottom) in enumerate(values[:, :4] * side):
            box = Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor=color[i], linewidth=1.2)
            axes.add_patch(box)
        if image is None:
            axes.set_xlim(0, 1)
            axes.set_ylim(1, 0)
    elif task.kind == "states":
        text = "\n".join(task.describe(e) for e in elements)
        axes.set_xlabel(text, fontsize=6, loc="left", parse_math=False)
    elif task.kind in ("points", "polygons") and image is None:
        rows_first = task.feature_names[:2] == ("row", "column")
        x, y = _places(task, values)
        axes.scatter(*((y, -x) if rows_first else (x, y)), s=8, c=color)
        axes.set_aspect("equal")
        axes.set_xlim(-0.05, 1.05)
        axes.set_ylim(*((-1.05, 0.05) if rows_first else (-0.05, 1.05)))
    elif task.kind in ("points", "polygons"):
        x, y = _places(task, values)
        axes.scatter(x * side, y * side, s=8, c=color)
    elif image is None and len(values):
        axes.imshow(values, aspect="auto", vmin=0, vmax=1)
    else:
        text = "\n".join(task.describe(e) for e in elements[:8])
        axes.set_xlabel(text, fontsize=6, loc="left", parse_math=False)


def _places(task: SetTask, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where points lie: their first two features, or on a line if there is one number only."""
    alone = 1 not in task.numbers
    return values[:, 0], np.full(len(values), 0.5) if alone else values[:, 1]


def _colors(task: SetTask, elements: torch.Tensor) -> list[str]:
    """One a category of the first group, or all the same."""
    if not task.groups:
        return [COLORS[1] if task.kind != "boxes" else COLORS[0]] * len(elements)
    first, end = next(iter(task.groups.values()))
    return [COLORS[int(k) % len(COLORS)] for k in elements[:, first:end].argmax(dim=1)]
