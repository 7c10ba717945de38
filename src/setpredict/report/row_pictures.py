"""The picture of a table of images: a few test samples as every row predicts them."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from setpredict.data.plain import unaugmented
from setpredict.report.figures.drawing import draw_set, input_image, shown_as_text
from setpredict.report.figures.legend import HEIGHT, add_legend, picture_legend
from setpredict.report.watched import watch
from setpredict.runs.loaded import LoadedRun
from setpredict.sets import Sets

SAMPLES = 4
Predictions = list[list[list[float]]]
"""What a row predicts for the first test samples: elements of each, with the mask as last number."""


def first_predictions(run: LoadedRun) -> Predictions:
    """The predictions of a run for its record, from which the picture can be drawn without the run."""
    found = watch(run, range(SAMPLES)).prediction.final.features_with_mask
    return [[[round(value, 4) for value in element] for element in each] for each in found.tolist()]


def row_pictures(run: LoadedRun, rows: Mapping[str, Predictions]) -> Figure:
    """One column per test sample; the target, then the predictions of every row. The data are those of `run`."""
    task, batch = run.task, unaugmented(run.data.test).batch(np.arange(SAMPLES), 0)
    predicted: dict[str, Any] = {"target": None}
    for name, values in rows.items():
        numbers = torch.tensor(values)
        predicted[name] = Sets(numbers[..., :-1], numbers[..., -1])
    as_text = shown_as_text(task)
    names = [*(["input"] if as_text else []), *predicted]
    wide, high = (2.6, 0.16 * (task.max_size + 2)) if as_text else (1.8, 1.8)
    figure = Figure(figsize=(wide * SAMPLES + 0.3, high * len(names) + HEIGHT), layout="constrained")
    grid = figure.subplots(len(names), SAMPLES, squeeze=False)
    for axes, name in zip(grid, names):
        for sample in range(SAMPLES):
            if name == "input":
                axes[sample].imshow(input_image(task, batch, sample))
                axes[sample].set(xticks=[], yticks=[])
            else:
                draw_set(axes[sample], task, batch, sample, predicted[name], "")
        axes[0].text(-0.04, 0.5, fill(name, 24), fontsize=8, rotation=90, va="center", ha="right",
                     multialignment="center", transform=axes[0].transAxes)  # fmt: skip
    add_legend(figure, picture_legend(task))
    return figure
