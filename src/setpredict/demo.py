"""The demo: three decoders learn the same sets, for the same time or number of steps each."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import torch
from lightning_fabric import Fabric
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from setpredict.build import make_loss
from setpredict.config import DecoderConfig, EncoderConfig, InputConfig, LossConfig, ModelConfig, TrainConfig
from setpredict.core.files import write_text
from setpredict.core.progress import bar_columns
from setpredict.core.revision import hardware, revision
from setpredict.core.threads import threads_restored
from setpredict.data.sources.multisets import multisets
from setpredict.data.sources.polygons import polygons
from setpredict.data.task import SetTask
from setpredict.losses import hungarian_loss
from setpredict.losses.outer import OuterLoss
from setpredict.model import SetPredictor
from setpredict.presets import IDSPN
from setpredict.report.figures.pictures import picture
from setpredict.report.figures.save import save
from setpredict.report.figures.sweep import CORNERS, Sweep, draw_sweeps, sweep
from setpredict.report.tables.text import mean_and_deviation
from setpredict.training.limits import ENDLESS
from setpredict.training.loop import AfterStep, Step, TrainState, fit

MLP = DecoderConfig("mlp", hidden=(256, 256))
DSPN = DecoderConfig("dspn")
DEEP = EncoderConfig("mlp", hidden=(256, 256))
FREE = EncoderConfig("mlp", hidden=(256,), pool="fspool-free", normalize=False)


@dataclass(frozen=True)
class Budget:
    """How long every decoder trains. Steps give the same numbers on a machine that is busy."""

    amount: float
    unit: Literal["seconds", "steps"] = "seconds"

    @property
    def limits(self) -> dict[str, Any]:
        return {"max_steps": int(self.amount)} if self.unit == "steps" else {"max_minutes": self.amount / 60}

    def __str__(self) -> str:
        return f"{self.amount:g} {self.unit}"


@dataclass(frozen=True)
class Trained:
    """A decoder trained with one seed."""

    model: SetPredictor
    steps: int
    """Those of the training."""
    errors: dict[int, float]
    """The error on the test split by number of inner steps: T and 2T, or 0 for a one-shot decoder."""


@dataclass
class Contender:
    """One decoder of the comparison, and its results."""

    name: str
    decoder: DecoderConfig
    encoder: EncoderConfig
    lr: float
    trained: list[Trained] = field(default_factory=list)

    @property
    def model(self) -> SetPredictor:
        """The model of the first seed."""
        return self.trained[0].model

    @property
    def steps(self) -> int:
        """Steps trained, averaged over the seeds."""
        return round(fmean(t.steps for t in self.trained))

    def errors(self) -> dict[int, list[float]]:
        """For every number of inner steps the error of each seed."""
        return {steps: [t.errors[steps] for t in self.trained] for steps in self.trained[0].errors}


def contenders() -> list[Contender]:
    return [
        Contender("MLP decoder", MLP, DEEP, 1e-3),
        Contender("DSPN", DSPN, DEEP, 3e-3),
        Contender("iDSPN", IDSPN, FREE, 3e-3),
    ]


@threads_restored()
def run(what: str, budget: Budget, out: Path, seeds: Sequence[int], console: Console) -> list[Contender]:
    """Train, compare and draw; results are printed and written to `out`."""
    torch.set_num_threads(1)  # such small models gain nothing from more, and lose much where cores are busy
    began = time.perf_counter()
    models = contenders()
    console.print(_introduction(what, budget, seeds))
    columns = bar_columns("{task.description}: {task.fields[note]}")
    with Progress(*columns, console=console, expand=True) as bars:
        rows = [bars.add_task(c.name, total=float(len(seeds)), note="waiting", start=False) for c in models]
        for contender, row in zip(models, rows):
            bars.start_task(row)
            for i, seed in enumerate(seeds):

                def show(state: TrainState, step: Step, row: Any = row, before: int = i) -> None:
                    note = f"{state.step} steps, loss {step.parts['set_last'].item():.5f}"
                    bars.update(row, completed=before + min(step.done, 1.0), note=note)

                task = multisets(seed=seed) if what == "points" else polygons(seed=seed)
                contender.trained.append(train(contender, task, budget, seed, show))
            bars.update(row, completed=float(len(seeds)), note=f"{contender.steps} steps trained")
    console.print(table(models))
    content = results(what, models, budget, seeds)
    if what == "polygons":
        console.print("Rotating polygons …")
        sweeps = {c.name: {n: [sweep(t.model, n) for t in c.trained] for n in CORNERS} for c in models}
        drawn = save(draw_sweeps(sweeps), out / "sweep.png")
        for contender, entry in zip(models, content["models"]):
            entry["sweep"] = _summaries(sweeps[contender.name])
    else:
        drawn = draw_points(models, seeds[0], out)
    content["seconds_total"] = round(time.perf_counter() - began, 1)
    write_text(out / "results.json", json.dumps(content, indent=2) + "\n")
    console.print(f"\nPicture: [bold]{escape(str(drawn))}[/]   numbers: {escape(str(out / 'results.json'))}")
    return models


def train(contender: Contender, task: SetTask, budget: Budget, seed: int, after_step: AfterStep) -> Trained:
    """The same loop, data and loss for every contender."""
    torch.manual_seed(seed)
    assert task.input_kind != "image"
    kind = InputConfig(task.input_kind, task.input_size)
    config = ModelConfig(task.max_size, task.features, task.variable, 64, kind, contender.encoder, contender.decoder)
    settings = TrainConfig(
        epochs=ENDLESS, batch_size=32, lr=contender.lr, schedule="cosine", ema=0.99, seed=seed, **budget.limits
    )
    loss = LossConfig("hungarian", masks="feature" if task.variable else "filter")
    fabric = Fabric(accelerator="cpu", devices=1)
    state, criterion = TrainState.fresh(fabric, SetPredictor.from_config(config), settings), make_loss(loss, task)
    compile_kernels(state.model, task, criterion)
    fit(fabric, state, task, settings, criterion, after_step)
    model = state.best_weights.eval()
    T = model.steps
    errors = {steps: error(model, task, steps) for steps in ((T, 2 * T) if T else (0,))}
    return Trained(model, state.step, errors)


def compile_kernels(model: SetPredictor, task: SetTask, loss: OuterLoss) -> None:
    """One step with a copy of the model: kernels are compiled on first use, which must cost no decoder its time."""
    batch = next(iter(task.loader("train", 32)))
    with torch.random.fork_rng(devices=[]):
        loss(copy.deepcopy(model)(batch.input, batch.target), batch.target)["loss"].backward()


def error(model: SetPredictor, task: SetTask, steps: int) -> float:
    """The Hungarian loss over the whole test split, ×1000: d²/2 averaged over the numbers of a set."""
    total = 0.0
    for batch in task.loader("test", 250):
        masks = "feature" if task.variable else "filter"
        predicted = model.predict(batch.input, steps=steps)
        total += hungarian_loss(predicted, batch.target, cost="squared", masks=masks).sum().item()
    return 1000 * total / len(task.test)


def table(models: list[Contender]) -> Table:
    view = Table(title="Hungarian error × 1000 on unseen sets, lower is better", title_justify="left")
    for heading in ("decoder", "after T steps", "after 2T steps", "T", "parameters", "steps trained"):
        view.add_column(heading, justify="left" if heading == "decoder" else "right")
    for c in models:
        once, *twice = (mean_and_deviation(errors, "{:.3f}".format) for errors in c.errors().values())
        steps = c.model.steps
        view.add_row(
            c.name,
            once,
            *(twice or ["–"]),
            str(steps) if steps else "–",
            f"{parameters(c.model):,}",
            f"{c.steps:,}",
        )
    return view


def draw_points(models: list[Contender], seed: int, out: Path) -> Path:
    """The sets of iDSPN step by step beside the others' predictions, by the models of the first seed."""
    task = multisets(seed=seed)
    batch = next(iter(task.loader("test", 4)))
    predictions = {c.name: c.model.predict(batch.input) for c in models}
    with torch.no_grad():
        trajectory = models[-1].model(batch.input)
    predictions.pop(models[-1].name)
    heading = f"8 points through 64 numbers and back: {models[-1].name} step by step, beside the others' predictions"
    drawn = picture(task, batch, trajectory, [0, 1, 2, 5, 10, 20], range(4), predictions, heading=heading)
    return save(drawn, out / "sets.png")


def results(what: str, models: list[Contender], budget: Budget, seeds: Sequence[int]) -> dict[str, Any]:
    """What results.json says: the error of every seed, and their mean."""
    chosen = f"--seed {seeds[0]}" + (f" --seeds {len(seeds)}" if len(seeds) > 1 else "")
    return {
        "what": what,
        "command": f"setpredict demo --task {what} --{budget.unit} {budget.amount:g} {chosen}",
        f"{budget.unit}_each": budget.amount,
        "seeds": list(seeds),
        "revision": revision(),
        "hardware": hardware(),
        "models": [
            {
                "name": c.name,
                "error_x1000": {str(k): round(fmean(v), 4) for k, v in c.errors().items()},
                "errors_x1000": {str(k): [round(e, 4) for e in v] for k, v in c.errors().items()},
                "parameters": parameters(c.model),
                "steps_trained": c.steps,
            }
            for c in models
        ],
    }


def _summaries(sweeps: dict[int, list[Sweep]]) -> dict[str, list[dict[str, Any]]]:
    """By corners, one summary per seed."""
    return {str(n): [found.summary() for found in seeds] for n, seeds in sweeps.items()}


def parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def _introduction(what: str, budget: Budget, seeds: Sequence[int]) -> str:
    sets = {
        "points": "sets of 8 random points, squeezed through 64 numbers and decoded again",
        "polygons": "regular polygons from their angle and number of corners",
    }[what]
    repeated = f", with each of {len(seeds)} seeds" if len(seeds) > 1 else ""
    return f"Three decoders learn {sets}, {budget} each{repeated}.\n"
