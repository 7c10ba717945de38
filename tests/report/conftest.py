"""Tasks of every kind, and runs trained for a second."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from setpredict.config import (
    DataConfig,
    DecoderConfig,
    EncoderConfig,
    Experiment,
    GradientDescent,
    InputConfig,
    LossConfig,
    TrainConfig,
)
from setpredict.data.sources.multisets import multisets
from setpredict.data.sources.polygons import polygons
from setpredict.data.sources.scenes import scenes
from setpredict.data.task import SetTask
from setpredict.runs.evaluate import evaluate_run
from setpredict.runs.train import train_run

TASKS = {
    "points": lambda: multisets(4, variable=True, val=6),
    "line": lambda: multisets(4, dim=1, val=6),
    "polygons": lambda: polygons(val=6),
    "boxes": lambda: scenes("box", size=16, max_objects=4, val=6),
    "states": lambda: scenes("state", size=16, max_objects=4, val=6),
    "states as sets": lambda: scenes("state", max_objects=4, val=6, states_only=True),
}


@pytest.fixture(params=TASKS)
def task(request: pytest.FixtureRequest) -> SetTask:
    return TASKS[request.param]()


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two finished runs on the same data, evaluated."""
    folder = tmp_path_factory.mktemp("runs")
    made = {}
    for kind in ("dspn", "mlp"):
        experiment = Experiment(
            DataConfig("multisets", points=4, variable=True, train=64, test=20),
            latent=8,
            encoder=EncoderConfig(hidden=(8,)),
            decoder=DecoderConfig(kind, GradientDescent(steps=2), hidden=(8, 8)),
            loss=LossConfig(),
            train=TrainConfig(max_steps=6, batch_size=8, val_every=3, log_every=2, threads=1),
        )
        made[kind] = folder / kind
        train_run(experiment, made[kind], console=Console(quiet=True))
        evaluate_run(made[kind], (2, 4) if kind == "dspn" else (None,))
    return made


@pytest.fixture(scope="session")
def scene_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose elements are objects, shown as text."""
    folder = tmp_path_factory.mktemp("runs") / "scenes"
    experiment = Experiment(
        DataConfig("scenes", target="state", size=64, min_objects=2, max_objects=3, train=16, test=4),
        latent=8,
        input=InputConfig(depth=18, width=2),
        encoder=EncoderConfig(hidden=(8,)),
        decoder=DecoderConfig(solver=GradientDescent(steps=2)),
        train=TrainConfig(max_steps=1, batch_size=8, threads=1),
    )
    train_run(experiment, folder, console=Console(quiet=True))
    return folder
