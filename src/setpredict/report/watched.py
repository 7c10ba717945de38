"""A trained model's predictions for some samples of its data, with the set loss of every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from setpredict.build import make_loss
from setpredict.core.errors import UserError
from setpredict.data.plain import unaugmented
from setpredict.data.task import Batch
from setpredict.runs.loaded import LoadedRun
from setpredict.sets import Prediction

MAX_STEPS = 1000
"""The largest number of inner steps in figures."""
BEYOND = 3
"""Losses by step are computed for up to this many times the trained steps."""
CURVE_SAMPLES = 64
"""The number of samples behind each curve of losses by step."""


@dataclass
class Watched:
    """Some samples, the trajectory that a model predicts for each, and the set loss of every step."""

    batch: Batch
    prediction: Prediction
    set_loss: Float[Tensor, "T1 B"]
    """What training minimizes, for each of the sets Y0 … YT."""

    def ranked(self, step: int) -> list[int]:
        """The samples from best to worst at a step."""
        return self.set_loss[min(step, self.prediction.steps)].argsort(stable=True).tolist()


@torch.no_grad()
def watch(run: LoadedRun, samples: Sequence[int], split: str = "test", steps: int | None = None) -> Watched:
    """Decode some samples of a split.

    Args:
        run: The model and its data.
        samples: Indices of the samples in the split.
        split: train, val or test.
        steps: The number of inner steps (None: as trained).
    """
    source = unaugmented(run.data.split(split))
    for i in samples:
        if not 0 <= i < len(source):
            raise UserError(f"sample {i} is not in the {split} split, which has samples 0 to {len(source) - 1}")
    batch = source.batch(np.asarray(samples, dtype=np.int64), 0)
    prediction = run.model(batch.input, steps=steps)
    set_loss = make_loss(run.experiment.loss, run.task).set_loss
    capacity = max(batch.target.elements.shape[1], prediction.elements.shape[2])  # other data may have larger sets
    losses = [set_loss(prediction.step(t).pad_to(capacity), batch.target) for t in range(prediction.steps + 1)]
    return Watched(batch, prediction, torch.stack(losses))


def first_samples(run: LoadedRun, split: str, most: int = 4) -> list[int]:
    """Indices of the first samples of a split, for pictures that nobody chose samples for."""
    return list(range(min(most, len(run.data.split(split)))))


def watch_beyond(run: LoadedRun, split: str = "test") -> Watched:
    """Decode the first samples of a split with more steps than trained, for curves of losses by step."""
    samples = range(min(CURVE_SAMPLES, len(run.data.split(split))))
    most = min(MAX_STEPS, run.model.max_steps or MAX_STEPS)
    return watch(run, samples, split, min(BEYOND * run.steps, most) if run.steps else None)


def good_median_worst(order: Sequence[int]) -> dict[str, int]:
    """Of samples ordered from best to worst: a good one (the last of the first tenth), the median and the worst.

    >>> good_median_worst([7, 3, 5, 1])
    {'good': 7, 'median': 5, 'worst': 1}
    """
    n = len(order)
    return {"good": order[(n - 1) // 10], "median": order[n // 2], "worst": order[n - 1]}
