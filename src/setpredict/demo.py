"""The demo: three decoders learn the same sets, for the same time each."""

from __future__ import annotations

import json
import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from setpredict.build import make_loss
from setpredict.config import DecoderConfig, EncoderConfig, InputConfig, LossConfig, ModelConfig, TrainConfig
from setpredict.core.files import write_text
from setpredict.core.progress import bar_columns
from setpredict.data.sources.multisets import multisets
from setpredict.data.sources.polygons import polygons
from setpredict.data.task import SetTask
from setpredict.losses import hungarian_loss
from setpredict.model import SetPredictor
from setpredict.presets import IDSPN
from setpredict.report.figures.progression import progression, save
from setpredict.report.figures.sweep import CORNERS, hardest, sweep
from setpredict.training.loop import AfterStep, Step, TrainState, fit

MLP = DecoderConfig("mlp", hidden=(256, 256))
DSPN = DecoderConfig("dspn")
DEEP = EncoderConfig("mlp", hidden=(256, 256))
FREE = EncoderConfig("mlp", hidden=(256,), pool="fspool-free", normalize=False)


@dataclass
class Contender:
    """One decoder of the comparison, and its results."""

    name: str
    decoder: DecoderConfig
    encoder: EncoderConfig
    lr: float
    model: SetPredictor = field(init=False)
    steps: int = 0
    errors: dict[int, float] = field(default_factory=dict)


def contenders() -> list[Contender]:
    return [
        Contender("MLP decoder", MLP, DEEP, 1e-3),
        Contender("DSPN", DSPN, DEEP, 3e-3),
        Contender("iDSPN", IDSPN, FREE, 3e-3),
    ]


def run(what: str, seconds: float, out: Path, seed: int, console: Console) -> list[Contender]:
    """Train, compare and draw; results are printed and written to `out`."""
    torch.set_num_threads(1)  # such small models gain nothing from more, and lose much where cores are busy
    task = multisets(seed=seed) if what == "points" else polygons(seed=seed)
    began = time.perf_counter()
    models = contenders()
    console.print(_introduction(what, seconds))
    columns = bar_columns("{task.description}: {task.fields[note]}")
    with Progress(*columns, console=console, expand=True) as bars:
        rows = [bars.add_task(c.name, total=1.0, note="waiting", start=False) for c in models]
        for contender, row in zip(models, rows):
            bars.start_task(row)

            def show(state: TrainState, step: Step, row: Any = row) -> None:
                note = f"{state.step} steps, loss {step.parts['set_last'].item():.5f}"
                bars.update(row, completed=min(step.done, 1.0), note=note)

            train(contender, task, seconds, seed, show)
            bars.update(row, completed=1.0, note=f"{contender.steps} steps trained")
    for contender in models:
        for steps in _evaluated_steps(contender):
            contender.errors[steps] = error(contender.model, task, steps)
    console.print(table(models))
    picture = draw(what, models, task, out)
    write_text(out / "results.json", json.dumps(results(what, models, seconds, seed, began), indent=2) + "\n")
    console.print(f"\nPicture: [bold]{picture}[/]   numbers: {out / 'results.json'}")
    return models


def train(
    contender: Contender,
    task: SetTask,
    seconds: float,
    seed: int,
    after_step: AfterStep,
) -> None:
    """The same loop, data and loss for every contender."""
    torch.manual_seed(seed)
    assert task.input_kind != "image"
    kind = InputConfig(task.input_kind, task.input_size)
    config = ModelConfig(task.max_size, task.features, task.variable, 64, kind, contender.encoder, contender.decoder)
    settings = TrainConfig(
        epochs=10**6, max_minutes=seconds / 60, batch_size=32, lr=contender.lr, schedule="cosine", ema=0.99, seed=seed
    )
    loss = LossConfig("hungarian", masks="feature" if task.variable else "filter")
    fabric = Fabric(accelerator="cpu", devices=1)
    state = TrainState.fresh(fabric, SetPredictor.from_config(config), settings)
    fit(fabric, state, task, settings, make_loss(loss, task), after_step)
    contender.model, contender.steps = state.best_weights.eval(), state.step


def _evaluated_steps(contender: Contender) -> tuple[int, ...]:
    """T and 2T; a one-shot decoder has one prediction."""
    T = contender.model.steps
    return (T, 2 * T) if T else (0,)


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
        once, twice = c.errors.values() if len(c.errors) == 2 else [*c.errors.values()] * 2
        steps = c.model.steps
        view.add_row(
            c.name,
            f"{once:.3f}",
            f"{twice:.3f}" if steps else "–",
            str(steps) if steps else "–",
            f"{parameters(c.model):,}",
            f"{c.steps:,}",
        )
    return view


def draw(what: str, models: list[Contender], task: SetTask, out: Path) -> Path:
    """Points: the sets of iDSPN step by step beside the others' predictions. Polygons: a sweep over the angle."""
    if what == "polygons":
        return save(sweep({c.name: c.model for c in models}), out / "sweep.png")
    batch = next(iter(task.loader("test", 8)))
    predictions = {c.name: c.model.predict(batch.input) for c in models}
    with torch.no_grad():
        trajectory = models[-1].model(batch.input)
    predictions.pop(models[-1].name)
    title = f"8 points through 64 numbers and back: {models[-1].name} step by step, beside the others' predictions"
    return save(progression(trajectory, batch.target, [0, 1, 2, 5, 10, 20], predictions, title=title), out / "sets.png")


def results(what: str, models: list[Contender], seconds: float, seed: int, began: float) -> dict[str, Any]:
    return {
        "what": what,
        "command": f"setpredict demo --task {what} --seconds {seconds:g} --seed {seed}",
        "seconds_each": seconds,
        "seconds_total": round(time.perf_counter() - began, 1),
        "hardware": f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}",
        "models": [
            {
                "name": c.name,
                "error_x1000": {str(k): round(v, 4) for k, v in c.errors.items()},
                "parameters": parameters(c.model),
                "steps_trained": c.steps,
                **({"sweep": {str(n): hardest(c.model, n) for n in CORNERS}} if what == "polygons" else {}),
            }
            for c in models
        ],
    }


def parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def _introduction(what: str, seconds: float) -> str:
    sets = {
        "points": "sets of 8 random points, squeezed through 64 numbers and decoded again",
        "polygons": "regular polygons from their angle and number of corners",
    }[what]
    return f"Three decoders learn {sets}, {seconds:g} seconds each.\n"
