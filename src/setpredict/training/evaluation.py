"""How good a model is on a split: the numbers of the paper's tables, exact on any number of processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from lightning_fabric import Fabric
from torchmetrics import MeanMetric, SumMetric

from setpredict.config import TrainConfig
from setpredict.core.errors import NotFinite
from setpredict.core.modes import evaluating
from setpredict.data.batch import Batch
from setpredict.data.plain import in_order
from setpredict.data.task import SetTask
from setpredict.losses.outer import OuterLoss
from setpredict.metrics.baselines import Baseline
from setpredict.metrics.matched import ElementErrors
from setpredict.metrics.sensitivity import Sensitivity
from setpredict.model import SetPredictor
from setpredict.sets import Prediction, Sets
from setpredict.training.devices import any_rank, raise_anywhere, shared
from setpredict.training.scores import CocoScores, Measure, Scores, selected_by

LARGEST_BATCH = 128


@dataclass
class Evaluation:
    """One row of a table."""

    split: str
    steps: int | None
    """Inner steps; None for one-shot decoders."""
    samples: int
    metrics: dict[str, float] = field(default_factory=dict)
    milliseconds: float = 0.0
    """Wall-clock time per sample in this process, for encoding and decoding. Where several numbers of steps were
    decoded at once, each has its share of the decoding."""
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
    sensitivity: Sensitivity | None = None
    """What a tiny change of the latent vector does to predictions, where it was asked for."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evaluation:
        """From what `dataclasses.asdict` gives, as stored in a run; older files lack some fields."""

        def coco(v: Mapping[str, Any] | None) -> CocoScores | None:
            if not v:
                return None
            classes = {name: (ap, ap50) for name, (ap, ap50) in v["classes"].items()}  # JSON has lists
            return CocoScores(v["ap"], v["ap50"], v["ap75"], classes)

        def elements(v: Mapping[str, Any] | None) -> ElementErrors | None:
            if not v:
                return None
            known = {name: value for name, value in v.items() if name != "confusion"}  # complete matrices, before 0.3
            for group, counts in v.get("confusion", {}).items():
                found = [[i, j, n] for i, line in enumerate(counts) for j, n in enumerate(line) if n]
                known.setdefault("confusions", {})[group] = found
            return ElementErrors(**known)

        def scores(v: Mapping[str, Any]) -> Scores:
            return Scores(v["metrics"], tuple(v["score"]), elements(v["elements"]), coco(v["coco"]))

        known = {k: v for k, v in values.items() if k in cls.__dataclass_fields__}
        known["score"] = tuple(known.get("score", (0.0, 0.0)))
        known["elements"] = elements(known.get("elements"))
        known["coco"] = coco(known.get("coco"))
        known["baselines"] = {name: scores(v) for name, v in known.get("baselines", {}).items()}
        known["sensitivity"] = Sensitivity(**known["sensitivity"]) if known.get("sensitivity") else None
        return cls(**known)


def batch_size_for(device: torch.device, train: TrainConfig) -> int:
    """Samples decoded at once: many, but on a GPU no more than a training step has, whose memory may be full."""
    return LARGEST_BATCH if device.type == "cpu" else min(LARGEST_BATCH, train.batch_size)


def evaluate(
    fabric: Fabric,
    model: SetPredictor,
    task: SetTask,
    loss: OuterLoss,
    split: str = "test",
    steps: int | None = None,
    batch_size: int = LARGEST_BATCH,
    workers: int = 0,
    **options: Any,
) -> Evaluation:
    """`evaluate_steps` with one number of inner steps (None: as trained)."""
    return evaluate_steps(fabric, model, task, loss, split, [steps], batch_size, workers, **options)[0]


@torch.no_grad()
def evaluate_steps(
    fabric: Fabric,
    model: SetPredictor,
    task: SetTask,
    loss: OuterLoss,
    split: str,
    steps: Sequence[int | None],
    batch_size: int = LARGEST_BATCH,
    workers: int = 0,
    *,
    details: bool = False,
    baselines: Mapping[str, Baseline] | None = None,
    advance: Callable[[int], object] = lambda samples: None,
) -> list[Evaluation]:
    """Predict every sample of a split exactly once and compute the metrics that fit the data set.

    Several numbers of steps are decoded at once: fewer steps are the beginning of the trajectory of the most. A decoder
    of somebody's own need not be like that, and decodes once for each.

    Args:
        fabric: The processes that share the samples.
        model: Is put into evaluation mode for a while.
        task: The data set.
        loss: Its set loss is one of the metrics.
        split: Which part of the data set.
        steps: Numbers of inner steps, one result each (None: as trained).
        batch_size: Samples decoded at once.
        workers: Threads that load data ahead.
        details: Measure the errors of matched elements and COCO's AP too.
        baselines: Trivial predictions that are measured too, in the first result.
        advance: Is called with the number of samples after every batch, times the numbers of steps.
    """
    given = {"details": details, "advance": advance}
    if len(steps) > 1 and not model.is_built_in:
        some = [{"baselines": baselines if i == 0 else None} for i in range(len(steps))]
        each = zip(steps, some)
        return [evaluate(fabric, model, task, loss, split, s, batch_size, workers, **given, **b) for s, b in each]
    rows = [_Row(model.steps if s is None else s, Measure(task, loss, fabric, details), fabric) for s in steps]
    others = {name: (predict, Measure(task, loss, fabric, details)) for name, predict in (baselines or {}).items()}
    too_large = shared(SumMetric(), fabric)
    count, encoding, decoding, problem = 0, 0.0, 0.0, None
    most, dtype = max(row.steps for row in rows), next(model.parameters()).dtype
    asked = None if list(steps) == [None] else most
    try:
        ranks = {"rank": fabric.global_rank, "world_size": fabric.world_size}
        for batch in in_order(task.split(split), batch_size, workers=workers, **ranks):
            batch = batch.to(fabric.device)
            began = _now(fabric)
            with evaluating(model):
                code = model.encode(batch.input.to(dtype))
                encoded = _now(fabric)
                prediction = model.decode(code, steps=asked).to(batch.target.elements.dtype)
            encoding += encoded - began
            decoding += _now(fabric) - encoded
            count += len(batch)
            for row in rows:
                row.update(prediction.final if row.steps == most else prediction.step(row.steps), prediction, batch)
            too_large.update((batch.target.sizes > prediction.elements.shape[2]).sum().float())
            for predict, measure in others.values():
                measure.update(predict(batch.index).to(fabric.device), batch.target, batch.index)
            advance(len(batch) * len(rows))
    except NotFinite as e:
        problem = e
    raise_anywhere(fabric, problem)
    found = []
    for row in rows:
        scores = row.compute()
        seconds = encoding + decoding * (row.steps / most if most else 1)
        found.append(
            Evaluation(
                split=split,
                steps=row.steps if model.steps else None,
                samples=len(task.split(split)),
                metrics=scores.metrics,
                milliseconds=1000 * seconds / max(count, 1),
                score=scores.score,
                selected_by=selected_by(scores.metrics, loss.name),
                elements=scores.elements,
                coco=scores.coco,
                too_large=int(too_large.compute()),
            )
        )
    found[0].baselines = {name: measure.compute() for name, (_, measure) in others.items()}
    return found


class _Row:
    """What is measured of the sets after one number of steps."""

    def __init__(self, steps: int, measure: Measure, fabric: Fabric):
        self.steps, self.measure, self.fabric = steps, measure, fabric
        self.taken, self.stops_early = shared(MeanMetric(), fabric), False

    def update(self, predicted: Sets, prediction: Prediction, batch: Batch) -> None:
        """Add a batch: the sets after these steps, and the trajectory that they are from."""
        self.measure.update(predicted, batch.target, batch.index)
        if prediction.steps_taken is not None:
            self.stops_early = True
            self.taken.update(prediction.steps_taken.clamp(max=self.steps))

    def compute(self) -> Scores:
        found = self.measure.compute()
        if any_rank(self.fabric, self.stops_early):
            found.metrics["steps_taken"] = float(self.taken.compute())
        return found


def _now(fabric: Fabric) -> float:
    """The time when the device has finished all work it was given."""
    if fabric.device.type == "cuda":
        torch.cuda.synchronize(fabric.device)
    elif fabric.device.type == "mps":
        torch.mps.synchronize()
    return time.perf_counter()
