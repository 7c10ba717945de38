"""The picture of a few predictions that fits a data set, whatever its kind."""

from __future__ import annotations

from matplotlib.figure import Figure

from setpredict.data.task import Batch, SetTask
from setpredict.report.progression import progression
from setpredict.sets import Prediction


def validation_picture(task: SetTask, batch: Batch, prediction: Prediction) -> Figure:
    """Some samples step by step, with the target beside them."""
    T = prediction.steps
    steps = sorted({0, *(round(T * part) for part in (0.1, 0.25, 0.5, 1.0))})
    return progression(prediction, batch.target, steps, samples=range(min(4, len(batch))))
