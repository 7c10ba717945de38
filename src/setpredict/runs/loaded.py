"""A run's best model at work on some samples: every step, and the set loss of every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from setpredict.data.task import Batch, SetTask
from setpredict.decoders import DSPN
from setpredict.model import SetPredictor
from setpredict.runs.card import refuse_shipped
from setpredict.presets import Experiment, make_task
from setpredict.sets import Prediction


@dataclass
class TrainedRun:
    """A run with its data and its best model."""

    folder: Path
    experiment: Experiment
    task: SetTask
    model: SetPredictor

    @classmethod
    def open(cls, folder: Path) -> TrainedRun:
        from setpredict.runs.predict import load_run
        from setpredict.runs.train import read_experiment

        refuse_shipped(folder)
        experiment = read_experiment(folder)
        model, _ = load_run(folder)
        return cls(folder, experiment, make_task(experiment.data), model)

    @property
    def steps(self) -> int:
        """T as trained; 0 for one-shot decoders."""
        return self.model.decoder.steps if isinstance(self.model.decoder, DSPN) else 0

    @property
    def method(self) -> str:
        """The decoder as the paper's tables name it, and which steps are differentiated if not all of them."""
        decoder = self.experiment.decoder
        if decoder.kind != "dspn":
            return decoder.kind.upper()
        if decoder.implicit:
            return "iDSPN"
        last = decoder.backprop_steps
        if last is None or last >= decoder.steps:
            return "DSPN"
        return f"DSPN, gradient of the last {'step' if last == 1 else f'{last} steps'}"

    def watch(self, samples: Sequence[int], split: str = "test", steps: int | None = None) -> Watched:
        """Decode these samples of a split, with as many steps as trained or as asked for."""
        source = self.task.split(split)
        for i in samples:
            if not 0 <= i < len(source):
                raise ValueError(f"sample {i} is not in the {split} split: it has 0 to {len(source) - 1}")
        return self.watch_batch(source.batch(np.asarray(samples, dtype=np.int64), 0), steps)

    @torch.no_grad()
    def watch_batch(self, batch: Batch, steps: int | None = None) -> Watched:
        from setpredict.training.set_loss import make_set_loss

        prediction = self.model(batch.input, steps=steps)
        set_loss = make_set_loss(self.experiment.loss, self.task)
        losses = [set_loss(prediction.step(t), batch.target) for t in range(prediction.steps + 1)]
        return Watched(batch, prediction, torch.stack(losses))


@dataclass
class Watched:
    batch: Batch
    prediction: Prediction
    set_loss: Tensor  # (T+1, B): what training minimizes, of every set on the way

    def ranked(self, step: int) -> list[int]:
        """The samples from the best to the worst at a step."""
        return self.set_loss[min(step, self.prediction.steps)].argsort(stable=True).tolist()


def good_median_worst(order: Sequence[int]) -> dict[str, int]:
    """Of samples from best to worst: a good one (the first tenth's last), the median and the worst.

    >>> good_median_worst([7, 3, 5, 1])
    {'good': 7, 'median': 5, 'worst': 1}
    """
    n = len(order)
    return {"good": order[(n - 1) // 10], "median": order[n // 2], "worst": order[n - 1]}
