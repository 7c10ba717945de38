"""A sheet of examples from a task's training split, as one PNG."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure

from setpredict.core.files import atomic
from setpredict.data.task import Batch, SetTask
from setpredict.report.figures.drawing import draw_set, input_image
from setpredict.report.figures.legend import add_legend, category_legend
from setpredict.report.figures.palette import LINE_COLORS

COLUMNS = 4
DPI = 120


def contact_sheet(task: SetTask, out: Path, count: int = 12) -> Path:
    """Draw the first `count` samples of the training split: the set on its image, or below it if it is text.

    Without training samples, those of the test split are drawn.
    """
    split = task.train if len(task.train) else task.test
    count = min(count, len(split))
    batch = split.batch(np.arange(count), 0)
    rows = -(-count // COLUMNS)
    below = task.input_kind == "image" and task.kind in ("states", "vectors")
    figure = Figure(figsize=(3 * COLUMNS, (4.6 if below else 3.2) * rows), layout="constrained")
    FigureCanvasAgg(figure)
    cells = figure.subfigures(rows, COLUMNS, squeeze=False).ravel()
    for sample in range(count):
        _draw_sample(cells[sample], task, batch, sample, below)
    if not below:
        add_legend(figure, category_legend(task))
    with atomic(out) as temporary:
        figure.savefig(temporary, format="png", dpi=DPI)
    return out


def _draw_sample(cell: SubFigure, task: SetTask, batch: Batch, sample: int, below: bool) -> None:
    size = int(batch.target.sizes[sample])
    title = f"{sample}: {size} element{'s' * (size != 1)}"
    if not below:
        draw_set(cell.subplots(), task, batch, sample, None, title, category_colors(task, batch, sample))
        return
    upper, lower = cell.subplots(2, 1, height_ratios=(2, 1))
    image = input_image(task, batch, sample)
    assert image is not None
    upper.imshow(image)
    upper.set(xticks=[], yticks=[])
    upper.set_title(title, fontsize=9)
    draw_set(lower, task, batch, sample, None)


def category_colors(task: SetTask, batch: Batch, sample: int) -> list[str] | None:
    """One color per category of the first group; None if elements have no categories."""
    if not task.groups:
        return None
    first, end = next(iter(task.groups.values()))
    categories = batch.target.elements[sample, :, first:end].argmax(dim=1)
    return [LINE_COLORS[int(k) % len(LINE_COLORS)] for k in categories]
