"""How good a model is on a split: the numbers of the paper's tables, exact on any number of processes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import cast

import torch
from lightning_fabric import Fabric
from torchmetrics import MeanMetric, Metric

from setpredict.build import make_metrics
from setpredict.core.errors import NotFinite
from setpredict.core.modes import evaluating
from setpredict.data.task import SetTask
from setpredict.decoders import Decoder
from setpredict.losses.outer import OuterLoss
from setpredict.metrics import BoxAveragePrecision, SetSizeAccuracy, StateAveragePrecision
from setpredict.metrics.average_precision import BOX_THRESHOLDS, STATE_THRESHOLDS
from setpredict.model import SetPredictor
from setpredict.training.devices import any_rank, raise_anywhere


@dataclass
class Evaluation:
    """One row of a table."""

    split: str
    steps: int | None
    """Inner steps; None for one-shot decoders."""
    samples: int
    metrics: dict[str, float] = field(default_factory=dict)
    milliseconds: float = 0.0
    """Wall-clock time per sample in this process, for encoding and decoding."""
    score: tuple[float, float] = (0.0, 0.0)
    """Smaller is better: minus the mean AP (or the distance that training minimizes), then the set loss."""


@torch.no_grad()
def evaluate(
    fabric: Fabric,
    model: SetPredictor,
    task: SetTask,
    loss: OuterLoss,
    split: str = "test",
    steps: int | None = None,
    batch_size: int = 128,
    workers: int = 0,
) -> Evaluation:
    """Predict every sample of a split exactly once and compute the metrics that fit the data set.

    Args:
        fabric: The processes that share the samples.
        model: Is put into evaluation mode for a while.
        task: The data set.
        loss: Its set loss is one of the metrics.
        split: Which part of the data set.
        steps: Inner steps (None: as trained).
        batch_size: Samples decoded at once.
        workers: Threads that load data ahead.
    """
    metrics = {name: metric.to(fabric.device) for name, metric in make_metrics(task, loss).items()}
    taken = MeanMetric().to(fabric.device)
    stops_early, count, seconds, problem = False, 0, 0.0, None
    try:
        rank, size = fabric.global_rank, fabric.world_size
        for batch in task.loader(split, batch_size, workers=workers, rank=rank, world_size=size):
            batch = batch.to(fabric.device)
            began = _now(fabric)
            with evaluating(model):
                prediction = model(batch.input, steps=steps)
            seconds += _now(fabric) - began
            count += len(batch)
            for metric in metrics.values():
                metric.update(prediction.final, batch.target, batch.index)
            if prediction.steps_taken is not None:
                stops_early = True
                taken.update(prediction.steps_taken)
    except NotFinite as e:
        problem = e
    raise_anywhere(fabric, problem)
    values = {k: v for name, metric in metrics.items() for k, v in _named(name, metric).items()}
    if any_rank(fabric, stops_early):
        values["steps_taken"] = float(taken.compute())
    trained = cast(Decoder, model.decoder).steps
    used = (trained if steps is None else steps) if trained else None
    precisions = [v for k, v in values.items() if k.startswith("AP") and v == v]  # NaN where no set has an element
    distance = values[loss.name]
    score = (-sum(precisions) / len(precisions), distance) if precisions else (distance, distance)
    return Evaluation(split, used, len(task.split(split)), values, 1000 * seconds / max(count, 1), score)


def _now(fabric: Fabric) -> float:
    """The time when the device has finished all work it was given."""
    if fabric.device.type == "cuda":
        torch.cuda.synchronize(fabric.device)
    return time.perf_counter()


def _named(name: str, metric: Metric) -> dict[str, float]:
    """A metric's numbers under the names of the paper's tables: AP50, AP0.25, chamfer, size_accuracy."""
    value = metric.compute()
    if isinstance(metric, BoxAveragePrecision):
        return {f"AP{round(100 * t)}": float(v) for t, v in zip(BOX_THRESHOLDS, value)}
    if isinstance(metric, StateAveragePrecision):
        return {f"AP{t:g}".replace("inf", "∞"): float(v) for t, v in zip(STATE_THRESHOLDS, value)}
    if isinstance(metric, SetSizeAccuracy):
        return {f"size_{k}": float(v) for k, v in value.items()}
    return {name: float(value)}
