"""How good a model is on a split: the numbers of the paper's tables, exact on any number of processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from lightning_fabric import Fabric
from torchmetrics import MeanMetric, SumMetric

from setpredict.core.errors import NotFinite
from setpredict.core.modes import evaluating
from setpredict.data.plain import in_order
from setpredict.data.task import SetTask
from setpredict.losses.outer import OuterLoss
from setpredict.metrics.baselines import Baseline
from setpredict.metrics.matched import ElementErrors
from setpredict.model import SetPredictor
from setpredict.training.devices import any_rank, raise_anywhere
from setpredict.training.scores import CocoScores, Measure, Scores, selected_by


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
    selected_by: str = ""
    """What the first number of the score is, as text: the best model of a training has the best of it."""
    elements: ElementErrors | None = None
    """Errors of matched elements, in the data's own units, where they were asked for."""
    coco: CocoScores | None = None
    """COCO's AP, for boxes, where it was asked for."""
    baselines: dict[str, Scores] = field(default_factory=dict)
    """The same numbers for trivial predictions, by name, where they were asked for."""
    too_large: int = 0
    """Targets with more elements than the model can predict, which count as misses."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evaluation:
        """From what `dataclasses.asdict` gives, as stored in a run; older files lack some fields."""

        def coco(v: Mapping[str, Any] | None) -> CocoScores | None:
            return CocoScores(**v) if v else None

        def scores(v: Mapping[str, Any]) -> Scores:
            elements = ElementErrors(**v["elements"]) if v["elements"] else None
            return Scores(v["metrics"], tuple(v["score"]), elements, coco(v["coco"]))

        known = {k: v for k, v in values.items() if k in cls.__dataclass_fields__}
        known["score"] = tuple(known.get("score", (0.0, 0.0)))
        known["elements"] = ElementErrors(**known["elements"]) if known.get("elements") else None
        known["coco"] = coco(known.get("coco"))
        known["baselines"] = {name: scores(v) for name, v in known.get("baselines", {}).items()}
        return cls(**known)


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
    *,
    details: bool = False,
    baselines: Mapping[str, Baseline] | None = None,
    advance: Callable[[int], object] = lambda samples: None,
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
        details: Measure the errors of matched elements and COCO's AP too.
        baselines: Trivial predictions that are measured too.
        advance: Is called with the number of samples after every batch.
    """
    ours = Measure(task, loss, fabric.device, details)
    others = {
        name: (predict, Measure(task, loss, fabric.device, details)) for name, predict in (baselines or {}).items()
    }
    taken = MeanMetric().to(fabric.device)
    too_large = SumMetric().to(fabric.device)
    stops_early, count, seconds, problem = False, 0, 0.0, None
    try:
        ranks = {"rank": fabric.global_rank, "world_size": fabric.world_size}
        for batch in in_order(task.split(split), batch_size, workers=workers, **ranks):
            batch = batch.to(fabric.device)
            began = _now(fabric)
            with evaluating(model):
                prediction = model(batch.input, steps=steps)
            seconds += _now(fabric) - began
            count += len(batch)
            final = prediction.final
            ours.update(final, batch.target, batch.index)
            too_large.update((batch.target.sizes > final.elements.shape[1]).sum().float())
            for predict, measure in others.values():
                measure.update(predict(batch.index).to(fabric.device), batch.target, batch.index)
            if prediction.steps_taken is not None:
                stops_early = True
                taken.update(prediction.steps_taken)
            advance(len(batch))
    except NotFinite as e:
        problem = e
    raise_anywhere(fabric, problem)
    found = ours.compute()
    if any_rank(fabric, stops_early):
        found.metrics["steps_taken"] = float(taken.compute())
    trained = model.steps
    return Evaluation(
        split=split,
        steps=(trained if steps is None else steps) if trained else None,
        samples=len(task.split(split)),
        metrics=found.metrics,
        milliseconds=1000 * seconds / max(count, 1),
        score=found.score,
        selected_by=selected_by(found.metrics, loss.name),
        elements=found.elements,
        coco=found.coco,
        baselines={name: measure.compute() for name, (_, measure) in others.items()},
        too_large=int(too_large.compute()),
    )


def _now(fabric: Fabric) -> float:
    """The time when the device has finished all work it was given."""
    if fabric.device.type == "cuda":
        torch.cuda.synchronize(fabric.device)
    return time.perf_counter()
