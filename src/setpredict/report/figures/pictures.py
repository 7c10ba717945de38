"""A picture of a few predictions for data of any kind: one row per sample, one column per step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill

from matplotlib.figure import Figure

from setpredict.data.task import Batch, SetTask
from setpredict.report.figures.drawing import draw_set, input_image, shown_as_text, some_steps
from setpredict.report.figures.legend import HEIGHT, add_legend, picture_legend
from setpredict.report.figures.save import save
from setpredict.sets import Prediction, Sets


def validation_picture(task: SetTask, batch: Batch, prediction: Prediction) -> Figure:
    """The first four samples step by step, next to their targets."""
    steps = some_steps(prediction.steps, 3 if shown_as_text(task) else 5)
    return picture(task, batch, prediction, steps, samples=range(min(4, len(batch))))


def save_validation_picture(task: SetTask, batch: Batch, prediction: Prediction, path: Path) -> Path:
    """Write the picture that a run leaves after each validation."""
    return save(validation_picture(task, batch, prediction), path)


def picture(
    task: SetTask,
    batch: Batch,
    prediction: Prediction,
    steps: Sequence[int],
    samples: Sequence[int],
    beside: Mapping[str, Sets] | None = None,
    titles: Sequence[str] = (),
    heading: str = "",
) -> Figure:
    """Y0 … YT of some samples, the predictions of other models, and the target, with a legend of colors.

    Where sets are shown as text, the input image comes first.

    Args:
        task: The data set that the batch comes from.
        batch: Inputs and targets.
        prediction: The trajectory that a model predicts for the batch.
        steps: The steps to draw, one column each.
        samples: The samples of the batch to draw, one row each.
        beside: Predictions of other models, by name, one column each.
        titles: One title per row, on its left.
        heading: The title of the whole picture.
    """
    beside = beside or {}
    as_text = shown_as_text(task)
    first = ["input"] if as_text and task.input_kind == "image" else []
    heads = [*first, *(f"$Y^{{({t})}}$" for t in steps), *(fill(name, 18) for name in beside), "target"]
    wide, high = (2.6, 0.16 * (task.max_size + 2)) if as_text else (1.35, 1.4)
    widths = [1.0 if head == "input" else wide for head in heads]
    height = max(high, 1.0) * len(samples) + 0.4 + HEIGHT
    figure = Figure(figsize=(sum(widths) + 0.2, height), layout="constrained")
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
    if heading:
        figure.suptitle(heading, fontsize=10)
    add_legend(figure, picture_legend(task))
    return figure
