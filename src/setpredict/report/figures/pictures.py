"""The picture of a few predictions that fits a data set, whatever its kind: a row a sample, a column a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from setpredict.data.task import Batch, SetTask
from setpredict.report.figures.drawing import draw_set, in_words, input_image, some_steps
from setpredict.report.figures.progression import save
from setpredict.sets import Prediction, Sets


def validation_picture(task: SetTask, batch: Batch, prediction: Prediction) -> Figure:
    """Some samples step by step, with the target beside them."""
    steps = some_steps(prediction.steps, 3 if in_words(task) else 5)
    return picture(task, batch, prediction, steps, samples=range(min(4, len(batch))))


def save_validation_picture(task: SetTask, batch: Batch, prediction: Prediction, path: Path) -> Path:
    """What a run leaves behind after each validation."""
    return save(validation_picture(task, batch, prediction), path)


def picture(
    task: SetTask,
    batch: Batch,
    prediction: Prediction,
    steps: Sequence[int],
    samples: Sequence[int],
    beside: Mapping[str, Sets] | None = None,
    titles: Sequence[str] = (),
) -> Figure:
    """Y0 … YT of some samples, other models' answers, and the target; the input image first where words need it.

    `titles` stand left of the rows.
    """
    beside = beside or {}
    words = in_words(task)
    first = ["input"] if words and task.input_kind == "image" else []
    heads = [*first, *(f"$Y^{{({t})}}$" for t in steps), *beside, "target"]
    wide, high = (2.6, 0.16 * (task.max_size + 2)) if words else (1.35, 1.4)
    widths = [1.0 if head == "input" else wide for head in heads]
    figure = Figure(figsize=(sum(widths) + 0.2, max(high, 1.0) * len(samples) + 0.4), layout="constrained")
    grid = figure.subplots(len(samples), len(heads), squeeze=False, width_ratios=widths)
    for row, sample in enumerate(samples):
        sets = [prediction.step(t) for t in steps] + list(beside.values()) + [None]
        for column, one in enumerate(sets, start=len(first)):
            draw_set(grid[row, column], task, batch, sample, one, heads[column] if row == 0 else "")
        if first:
            image = input_image(task, batch, sample)
            if image is not None:
                grid[row, 0].imshow(image)
            grid[row, 0].set(xticks=[], yticks=[])
            grid[row, 0].set_title("input" if row == 0 else "", fontsize=9)
        if titles:
            grid[row, 0].text(-0.08, 0.5, titles[row], fontsize=8, rotation=90, va="center", ha="right",
                              transform=grid[row, 0].transAxes)  # fmt: skip
    return figure
