"""How long MNIST takes to a validation Chamfer loss of 0.3e-3: our training, and the same one written the plain way.

`python -m benchmarks.plain_training [--until 0.0003]` trains both one after the other with the settings of `setpredict
reproduce mnist --rows "DSPN (all)" --minutes 90`: the same first weights, batches, optimizer, schedule and moving
average. Validation does not count as training time.
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
from setpredict.data.task import SetTask
from setpredict.decoders import DSPN
from setpredict.core.files import write_text
from setpredict.model import SetPredictor
from setpredict.presets import Experiment, make_task
from setpredict.core.revision import revision
from setpredict.studies import configure, studies
from setpredict.training.evaluation import evaluate
from setpredict.training.loop import TrainState, fit
from setpredict.training.optimizer import learning_rate, make_optimizer, update_average

RESULTS = Path(__file__).parents[1] / "results" / "plain-mnist-small.json"
ROW = "DSPN (all)"
Watch = Callable[[SetPredictor, int, float], bool]


class Curve:
    """Validates every so many steps, and says when the goal is reached."""

    def __init__(self, name: str, experiment: Experiment, task: SetTask, until: float, every: int):
        self.name, self.experiment, self.task = name, experiment, task
        self.until, self.every = until, every
        self.minutes: list[float] = []
        self.chamfer: list[float] = []
        self.steps = 0

    def __call__(self, model: SetPredictor, step: int, seconds: float) -> bool:
        limit = 60 * (self.experiment.train.max_minutes or float("inf"))
        if step % self.every and seconds < limit:
            return False
        seen = evaluate(Fabric(accelerator="cpu"), model, self.task, self.experiment.loss, "val").metrics["chamfer"]
        self.steps = step
        self.minutes.append(round(seconds / 60, 2))
        self.chamfer.append(seen)
        print(f"{self.name}: step {step}, {seconds / 60:.1f} minutes, chamfer {1000 * seen:.3f}e-3", flush=True)
        return seen <= self.until or seconds >= limit

    def found(self) -> dict[str, Any]:
        curve = {"minutes": self.minutes, "chamfer": self.chamfer}
        return {"curve": curve, "steps_trained": self.steps, "minutes": self.minutes[-1]}


def train_ours(experiment: Experiment, task: SetTask, watch: Watch) -> None:
    torch.manual_seed(experiment.train.seed)
    fabric = Fabric(accelerator="cpu")
    state = TrainState.fresh(fabric, SetPredictor.from_config(experiment.model(task)), experiment.train)
    watched = lambda state, _: watch(state.best_weights, state.step, state.seconds)  # noqa: E731
    fit(fabric, state, task, experiment.train, experiment.loss, watched)


def train_plain(experiment: Experiment, task: SetTask, watch: Watch) -> None:
    """The training loop that one writes first."""
    config = experiment.train
    torch.manual_seed(config.seed)
    model = SetPredictor.from_config(experiment.model(task))
    assert isinstance(model.decoder, DSPN)
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
            copy_decoder(model.decoder, average, back=True)
            if watch(model, step, seconds):
                return


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plain_training", description=__doc__)
    parser.add_argument("--minutes", type=float, default=90.0, help="of the schedule, and the most that each may take")
    parser.add_argument("--until", type=float, default=0.0003, help="stop at this validation Chamfer loss")
    parser.add_argument("--val", type=int, default=240, help="digits to validate on")
    parser.add_argument("--every", type=int, default=100, help="steps between validations")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    began_with = revision()
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
    content |= curves["plain"].found() | {"ours": curves["ours"].found(), "machine": describe(), "revision": began_with}
    write_text(given.out, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
