"""How good a model is on a split: the numbers of the paper's tables, exact on any number of processes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch
from lightning_fabric import Fabric
from torchmetrics import MeanMetric, Metric

from setpredict.config import LossConfig
from setpredict.data.task import SetTask
from setpredict.decoders import DSPN
from setpredict.metrics import (
    BoxAveragePrecision,
    SetDistance,
    SetSizeAccuracy,
    StateAveragePrecision,
)
from setpredict.metrics.average_precision import BOX_THRESHOLDS, STATE_THRESHOLDS
from setpredict.model import SetPredictor
from setpredict.core.modes import evaluating
from setpredict.sets import NotFinite
from setpredict.training.devices import raise_anywhere
from setpredict.training.set_loss import make_set_loss


@dataclass
class Evaluation:
    """One row of a table."""

    split: str
    steps: int | None
    samples: int
    metrics: dict[str, float] = field(default_factory=dict)
    milliseconds: float = 0.0
    """Wall-clock a sample in this process, encoding and decoding."""
    score: tuple[float, float] = (0.0, 0.0)
    """Smaller is better: minus the mean AP (or the distance that training minimizes), then the set loss."""


@torch.no_grad()
def evaluate(
    fabric: Fabric,
    model: SetPredictor,
    task: SetTask,
    loss: LossConfig,
    split: str = "test",
    steps: int | None = None,
    batch_size: int = 128,
    workers: int = 0,
) -> Evaluation:
    """Predict the whole split, no sample twice and none left out, and measure what fits the data set."""
    meters = {name: meter.to(fabric.device) for name, meter in make_meters(task, loss).items()}
    if isinstance(model.decoder, DSPN) and model.decoder.stop_below is not None:
        meters["steps_taken"] = MeanMetric().to(fabric.device)
    seen, seconds = 0, 0.0
    problem = None
    try:
        rank, size = fabric.global_rank, fabric.world_size
        for batch in task.loader(split, batch_size, workers=workers, rank=rank, world_size=size):
            batch = batch.to(fabric.device)
            began = _now(fabric)
            with evaluating(model):
                prediction = model(batch.input, steps=steps)
            seconds += _now(fabric) - began
            seen += len(batch)
            for meter in meters.values():
                if isinstance(meter, MeanMetric):
                    meter.update(prediction.steps_taken)
                else:
                    meter.update(prediction.final, batch.target, batch.index)
    except NotFinite as e:
        problem = e
    raise_anywhere(fabric, problem)
    metrics = {k: v for name, meter in meters.items() for k, v in named(name, meter).items()}
    taken = (steps if steps is not None else model.decoder.steps) if isinstance(model.decoder, DSPN) else None
    precisions = [v for k, v in metrics.items() if k.startswith("AP") and v == v]  # NaN where no set has an element
    distance = metrics[loss.set]
    score = (-sum(precisions) / len(precisions), distance) if precisions else (distance, distance)
    return Evaluation(split, taken, len(task.split(split)), metrics, 1000 * seconds / max(seen, 1), score)


def _now(fabric: Fabric) -> float:
    """The time when all that was asked of the device is done."""
    if fabric.device.type == "cuda":
        torch.cuda.synchronize(fabric.device)
    return time.perf_counter()


def make_meters(task: SetTask, loss: LossConfig) -> dict[str, Metric]:
    """The set distance that training minimizes, and what the data set's kind calls for."""
    meters: dict[str, Metric] = {loss.set: SetDistance(make_set_loss(loss, task))}
    if task.kind == "boxes":
        meters["AP"] = BoxAveragePrecision(groups=task.groups)
    elif task.kind == "states":
        first = min((start for start, _ in task.groups.values()), default=task.features)
        scale = 1.0 if task.scale is None else tuple(task.scale[:first])
        meters["AP"] = StateAveragePrecision(coordinates=first, scale=scale, groups=task.groups)
    if task.variable:
        meters["size"] = SetSizeAccuracy()
    return meters


def named(name: str, meter: Metric) -> dict[str, float]:
    """A meter's numbers under the names of the paper's tables: AP50, AP0.25, chamfer, size_accuracy."""
    value = meter.compute()
    if isinstance(meter, BoxAveragePrecision):
        return {f"AP{round(100 * t)}": float(v) for t, v in zip(BOX_THRESHOLDS, value)}
    if isinstance(meter, StateAveragePrecision):
        return {f"AP{t:g}".replace("inf", "∞"): float(v) for t, v in zip(STATE_THRESHOLDS, value)}
    if isinstance(meter, SetSizeAccuracy):
        return {f"size_{k}": float(v) for k, v in value.items()}
    return {name: float(value)}
