"""Scores: everything that is measured of the predictions of a model, or of a trivial baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lightning_fabric import Fabric
from torch import Tensor
from torchmetrics import Metric

from setpredict.build import make_element_metrics, make_metrics
from setpredict.core.errors import UserError
from setpredict.data.task import SetTask
from setpredict.losses.outer import OuterLoss
from setpredict.metrics import (
    BoxAveragePrecision,
    ExactAccuracy,
    SetDistance,
    SetSizeAccuracy,
    StateAveragePrecision,
)
from setpredict.metrics.average_precision import BOX_THRESHOLDS, STATE_THRESHOLDS
from setpredict.metrics.coco import CocoPrecision
from setpredict.metrics.matched import ElementErrors
from setpredict.sets import Sets
from setpredict.training.devices import shared


@dataclass
class CocoScores:
    """COCO's average precisions of boxes, from 0 to 1."""

    ap: float
    """AP50:95, the mean over classes: COCO's AP."""
    ap50: float
    ap75: float
    classes: dict[str, tuple[float, float]] = field(default_factory=dict)
    """AP50:95 and AP50 of each class that occurs, by name."""


@dataclass
class Scores:
    """What was measured of one way to predict the sets of a split."""

    metrics: dict[str, float]
    score: tuple[float, float]
    """Smaller is better: minus the mean AP (or the distance that training minimizes), then the set loss."""
    elements: ElementErrors | None = None
    """Errors of matched elements, where they were asked for."""
    coco: CocoScores | None = None
    """COCO's AP, for boxes, where it was asked for."""


class Measure:
    """The metrics of a task, updated batch by batch on any number of processes."""

    def __init__(self, task: SetTask, loss: OuterLoss, fabric: Fabric, details: bool = False):
        self.task, self.loss = task, loss
        self.metrics: dict[str, Metric] = make_metrics(task, loss)
        self.details: dict[str, Metric] = make_element_metrics(task) if details else {}
        for metric in (*self.metrics.values(), *self.details.values()):
            shared(metric, fabric)

    def update(self, predicted: Sets, target: Sets, index: Tensor) -> None:
        """Add a batch. Targets with more elements than are predicted count as misses."""
        capacity = max(predicted.elements.shape[1], target.elements.shape[1])
        for metric in (*self.metrics.values(), *self.details.values()):
            padded = predicted.pad_to(capacity) if isinstance(metric, SetDistance) else predicted
            metric.update(padded, target, index)

    def compute(self) -> Scores:
        """The numbers of all batches of all processes."""
        values = {k: v for name, metric in self.metrics.items() for k, v in _named(name, metric).items()}
        precisions = [v for k, v in values.items() if k.startswith("AP") and v == v]  # NaN where no set has an element
        distance = values[self.loss.name]
        score = (-sum(precisions) / len(precisions), distance) if precisions else (distance, distance)
        scores = Scores(values, score)
        if self.details:
            scores.elements = self.details["elements"].compute()
        if "coco" in self.details:
            scores.coco = _by_name(self.details["coco"].compute(), self.task)
        return scores


def selected_by(metrics: Mapping[str, float], loss: str) -> str:
    """What the first number of a score is, as text.

    >>> selected_by({"hungarian": 0.1, "AP50": 0.5, "AP90": 0.1}, "hungarian")
    'the mean of AP50 … AP90'
    >>> selected_by({"chamfer": 0.1}, "chamfer")
    'the chamfer distance'
    """
    names = [name for name, value in metrics.items() if name.startswith("AP") and value == value]
    return f"the mean of {names[0]} … {names[-1]}" if names else f"the {loss} distance"


def class_names(task: SetTask) -> list[str]:
    """The name of each class of boxes: its category, or for several groups all of them."""
    names = [""]
    for group in task.groups:
        names = [f"{before} {name}".strip() for before in names for name in task.categories[group]]
    return names if task.groups else ["box"]


def check_features(task: SetTask, features: int) -> None:
    """Raise if a model predicts other elements than the task has."""
    if task.features != features:
        raise UserError(f"the elements of {task.name} have {task.features} features, but the model predicts {features}")


def _by_name(found: CocoPrecision, task: SetTask) -> CocoScores:
    names = class_names(task)
    return CocoScores(found.ap, found.ap50, found.ap75, {names[k]: v for k, v in found.classes.items()})


def _named(name: str, metric: Metric) -> dict[str, float]:
    """A metric's numbers under the names of the paper's tables: AP50, AP0.25, chamfer, size_accuracy."""
    value = metric.compute()
    if isinstance(metric, BoxAveragePrecision):
        return {f"AP{round(100 * t)}": float(v) for t, v in zip(BOX_THRESHOLDS, value)}
    if isinstance(metric, StateAveragePrecision):
        return {f"AP{t:g}".replace("inf", "∞"): float(v) for t, v in zip(STATE_THRESHOLDS, value)}
    if isinstance(metric, SetSizeAccuracy):
        return {f"size_{k}": float(v) for k, v in value.items()}
    if isinstance(metric, ExactAccuracy):
        return {f"{k}_accuracy": float(v) for k, v in value.items()}
    return {name: float(value)}
