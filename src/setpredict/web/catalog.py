"""The models that a server has: the shipped ones and the user's own runs, with the data that samples come from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from setpredict.config import from_dict
from setpredict.data.clevr.camera import USUAL_PLACE
from setpredict.core.paths import data_folder
from setpredict.data.task import Batch, Subset, SetTask, Split
from setpredict.decoders import DSPN
from setpredict.model import SetPredictor
from setpredict.runs.card import Card, shipped
from setpredict.runs.predict import load_run
from setpredict.presets import DataConfig, make_task
from setpredict.report.tables.text import heading, shown
from setpredict.runs.loaded import TrainedRun
from setpredict.data.description import read_card
from setpredict.web.schema import ModelInfo


@dataclass
class Served:
    """One model on the server."""

    name: str
    tab: str
    method: str
    model: SetPredictor
    task: SetTask
    """The description; samples are in `source`."""
    data: DataConfig
    split: str
    scores: dict[str, str] = field(default_factory=dict)
    date: str = ""
    note: str = ""

    @cached_property
    def source(self) -> Split | None:
        """Where samples come from; None if the data are not on this machine."""
        if self.data.name == "mnist" and not _mnist_is_here(self.data.folder):
            return None  # a page does not download data sets
        try:
            return make_task(self.data).split(self.split)
        except (OSError, ValueError):
            return None

    @property
    def steps(self) -> int:
        return self.model.decoder.steps if isinstance(self.model.decoder, DSPN) else 0

    @property
    def latent(self) -> int:
        return self.model.config.latent if self.model.config else 0

    def sample(self, index: int) -> Batch:
        """One sample of the model's own data."""
        if self.source is None:
            raise ValueError(f"the data of {self.name} ({self.task.name}) are not on this machine")
        if index >= len(self.source):
            raise ValueError(f"sample {index} is not there: {self.name} has samples 0 to {len(self.source) - 1}")
        return self.source.batch(np.array([index], dtype=np.int64), 0)

    def camera(self, index: int | None) -> NDArray[np.float64]:
        """Where the camera of a generated scene stood, or the usual place."""
        from setpredict.data.render.sampler import sample_scene
        from setpredict.data.sources.scene_task import SceneSplit

        split = self.source.split if isinstance(self.source, Subset) else self.source
        if index is None or not isinstance(split, SceneSplit):
            return np.array(USUAL_PLACE)
        scene = sample_scene(split.seed, split.split, index, 0, split.min_objects, split.max_objects)
        return scene.camera

    def info(self) -> ModelInfo:
        task = self.task
        return ModelInfo(
            name=self.name,
            tab=self.tab,
            method=self.method,
            task=task.name,
            kind=task.kind,
            input_kind=task.input_kind,
            input_size=task.input_size,
            max_size=task.max_size,
            features=task.features,
            feature_names=list(task.feature_names),
            latent=self.latent,
            trained_steps=self.steps,
            samples=0 if self.source is None else len(self.source),
            parameters=sum(p.numel() for p in self.model.parameters()),
            scores=self.scores,
            date=self.date,
            note=self.note,
        )


def load_catalog(runs: Sequence[Path] = ()) -> dict[str, Served]:
    """All shipped models, then the user's runs by names that fit in an address."""
    models = {name: _shipped(name, folder) for name, folder in shipped().items()}
    for folder in runs:
        served = _own_run(folder, taken=models)
        models[served.name] = served
    return models


def _shipped(name: str, folder: Path) -> Served:
    card = Card.read(folder)
    model = SetPredictor.from_pretrained(folder).eval()
    data = from_dict(DataConfig, card.data, where=f"{name}/card.json")
    served = Served(name, name.partition("-")[0], card.method, model, read_card(folder / "task.json"), data, "test")
    served.scores, served.date, served.note = _scores(card.metrics), card.date, card.note
    return served


def _own_run(folder: Path, taken: dict[str, Served]) -> Served:
    from setpredict.runs.train import read_experiment

    experiment = read_experiment(folder)
    model, task = load_run(folder)
    name = "run-" + (re.sub(r"[^a-zA-Z0-9_-]+", "-", folder.resolve().name).strip("-") or "unnamed")
    while name in taken:
        name += "-again"
    run = TrainedRun(folder, experiment, task, model)
    return Served(name, "run", run.method, model, task, experiment.data, "val")


def _scores(metrics: dict[str, float]) -> dict[str, str]:
    return {heading(k): shown(k, v) for k, v in metrics.items()}


def _mnist_is_here(folder: str | None) -> bool:
    from setpredict.data.sources.mnist import FILES

    place = Path(folder) if folder else data_folder() / "mnist"
    return all((place / name).is_file() or (place / f"{name}.gz").is_file() for name, _ in FILES.values())
