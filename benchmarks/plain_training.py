"""How long MNIST takes to reach a validation Chamfer loss of 0.3e-3: our training against a plain implementation.

`python -m benchmarks.plain_training [--until 0.0003]` trains both one after the other with the settings of `setpredict
reproduce mnist --rows "DSPN (all)" --minutes 90`: the same first weights, batches, optimizer, schedule and moving
average. Validation is not counted as training time.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch.nn.utils import clip_grad_norm_

from benchmarks import baseline
from benchmarks.cases import copy_decoder, features_first, stacked
from benchmarks.machine import describe
from setpredict.build import make_loss, make_optimizer, make_task
from setpredict.config import Experiment
from setpredict.core.files import write_text
from setpredict.core.revision import revision
from setpredict.data.task import SetTask
from setpredict.decoders import DSPN
from setpredict.model import SetPredictor
from setpredict.resolve import model_config
from setpredict.studies import configure, studies
from setpredict.training.evaluation import evaluate
from setpredict.training.loop import Step, TrainState, fit
from setpredict.training.optimizer import learning_rate, update_average

RESULTS = Path(__file__).parents[1] / "results" / "plain-mnist-small.json"
ROW = "DSPN (all)"
Watch = Callable[[SetPredictor, int, float], bool]
"""Called after every step with the model, the step and the training seconds; True ends the training."""


class Curve:
    """Validates at an interval of steps, and ends the training when the goal or the time limit is reached."""

    def __init__(self, name: str, experiment: Experiment, task: SetTask, until: float, every: int):
        self.name, self.task, self.loss = name, task, make_loss(experiment.loss, task)
        self.limit = 60 * (experiment.train.max_minutes or float("inf"))
        self.until, self.every = until, every
        self.minutes: list[float] = []
        self.chamfer: list[float] = []
        self.steps = 0

    def __call__(self, model: SetPredictor, step: int, seconds: float) -> bool:
        if step % self.every and seconds < self.limit:
            return False
        chamfer = evaluate(Fabric(accelerator="cpu"), model, self.task, self.loss, "val").metrics["chamfer"]
        self.steps = step
        self.minutes.append(round(seconds / 60, 2))
        self.chamfer.append(chamfer)
        print(f"{self.name}: step {step}, {seconds / 60:.1f} minutes, chamfer {1000 * chamfer:.3f}e-3", flush=True)
        return chamfer <= self.until or seconds >= self.limit

    def results(self) -> dict[str, Any]:
        """The curve, as in the file of a table."""
        curve = {"minutes": self.minutes, "chamfer": self.chamfer}
        return {"curve": curve, "steps_trained": self.steps, "minutes": self.minutes[-1]}


def train_ours(experiment: Experiment, task: SetTask, watch: Watch) -> None:
    torch.manual_seed(experiment.train.seed)
    fabric = Fabric(accelerator="cpu")
    state = TrainState.fresh(fabric, SetPredictor.from_config(model_config(experiment, task)), experiment.train)

    def after_step(state: TrainState, step: Step) -> bool:
        return watch(state.best_weights, state.step, state.seconds)

    fit(fabric, state, task, experiment.train, make_loss(experiment.loss, task), after_step)


def train_plain(experiment: Experiment, task: SetTask, watch: Watch) -> None:
    """A plain training loop."""
    config = experiment.train
    torch.manual_seed(config.seed)
    model = SetPredictor.from_config(model_config(experiment, task))
    assert isinstance(model.decoder, DSPN)
    assert experiment.latent is not None
    plain = baseline.PlainDSPN(baseline.PlainDeepSets(2, experiment.latent), task.max_size, 2)
    copy_decoder(model.decoder, plain)
    average, optimizer = copy.deepcopy(plain), make_optimizer(plain, config)
    seconds, step, limit = 0.0, 0, 60 * (config.max_minutes or float("inf"))
    for epoch in range(config.epochs):
        for batch in task.loader("train", config.batch_size, seed=config.seed, epoch=epoch):
            began = time.perf_counter()
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(config, step, seconds / limit)
            target = features_first(batch.target)
            sets, masks = plain(plain.encoder(target[:, :2], target[:, 2]))
            baseline.chamfer(stacked(sets, masks), target).backward()
            clip_grad_norm_(plain.parameters(), config.clip_grad or float("inf"))
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            update_average(average, plain, config.ema, step)
            seconds += time.perf_counter() - began
            copy_decoder(model.decoder, average, reverse=True)
            if watch(model, step, seconds):
                return


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plain_training", description=__doc__)
    parser.add_argument("--minutes", type=float, default=90.0, help="length of the schedule, and of each training")
    parser.add_argument("--until", type=float, default=0.0003, help="stop at this validation Chamfer loss")
    parser.add_argument("--val", type=int, default=240, help="digits to validate on")
    parser.add_argument("--every", type=int, default=100, help="steps between validations")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    code = revision()  # of the code that is loaded now
    study = studies()["mnist"]
    experiment = configure(study, study.row(ROW), "small", 0, minutes=given.minutes, threads=given.threads)
    experiment.data.val = given.val
    task = make_task(experiment.data)
    curves = {}
    for name, train in (("ours", train_ours), ("plain", train_plain)):
        curves[name] = Curve(name, experiment, task, given.until, given.every)
        train(experiment, task, curves[name])
    options = " ".join(f"--{k} {v}" for k, v in vars(given).items() if k != "out")
    command = f"python -m benchmarks.plain_training {options}"
    content = {"row": f"{ROW}, plain implementation", "compares": ROW, "command": command, "goal": given.until}
    content |= curves["plain"].results()
    content |= {"ours": curves["ours"].results(), "machine": describe(), "revision": code}
    write_text(given.out, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
