"""The models of a server: the shipped ones and the user's own runs, with the data that their samples come from."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from setpredict.core.errors import UserError
from setpredict.core.paths import data_folder
from setpredict.data.clevr.camera import USUAL_PLACE
from setpredict.data.sources.mnist import FILES
from setpredict.data.task import Batch, SetTask, Split
from setpredict.decoders import Decoder
from setpredict.metrics.units import heading, shown
from setpredict.model import SetPredictor
from setpredict.runs.loaded import LoadedRun, load
from setpredict.runs.shipped import shipped
from setpredict.web.scene_pictures import ASPECT, SceneKey, sample_of, scene_split
from setpredict.web.schema import ModelInfo


@dataclass(eq=False)
class Served:
    """One model on the server."""

    name: str
    """Its name in the address."""
    tab: str
    """The tab of the page that shows it."""
    run: LoadedRun
    split: str
    """The split that its samples come from."""
    first_sample: int = 0
    """The sample that the page begins with."""

    @property
    def model(self) -> SetPredictor:
        return self.run.model

    @property
    def decoder(self) -> Decoder:
        decoder = self.run.model.decoder
        assert isinstance(decoder, Decoder)
        return decoder

    @property
    def task(self) -> SetTask:
        """The description of the data; its samples are in `source`."""
        return self.run.task

    @property
    def steps(self) -> int:
        """T as trained; 0 for one-shot decoders."""
        return self.run.steps

    @property
    def takes_latent(self) -> bool:
        """Whether a vector z alone can be decoded: not if the decoder needs proposals or tokens too."""
        return tuple(self.decoder.needs) == ("vector",)

    @property
    def latent(self) -> int:
        """The length of the vector that is decoded."""
        assert self.model.config is not None
        return self.model.config.latent

    @cached_property
    def source(self) -> Split | None:
        """The samples; None if the data is not on this machine."""
        if not _is_on_this_machine(self.run):
            return None
        try:
            return self.run.data.split(self.split)
        except (OSError, UserError) as e:
            print(f"{self.name}: no samples: {e}", file=sys.stderr)
            return None

    def sample(self, index: int) -> Batch:
        """One sample of the model's own data."""
        if self.source is None:
            raise UserError(f"the data of {self.name} ({self.task.name}) is not on this machine")
        if index >= len(self.source):
            raise UserError(f"sample {index} not found: {self.name} has samples 0 to {len(self.source) - 1}")
        return sample_of(self.source, index)

    def camera(self, index: int | None) -> NDArray[np.float64]:
        """The camera's position in a generated scene, or CLEVR's usual one."""
        split = scene_split(self.source)
        if index is None or split is None:
            return np.array(USUAL_PLACE)
        return SceneKey.of(split, index).sample().camera

    @property
    def aspect(self) -> float:
        """Width divided by height of the images that the squares of the input come from, as far as it is known."""
        task = self.task
        if self.run.experiment.data.name in ("scenes", "clevr") or scene_split(self.source) is not None:
            return ASPECT
        in_pixels = task.input_kind == "image" and task.kind in ("boxes", "points") and task.scale is not None
        return task.scale[0] / task.scale[1] if in_pixels and task.scale and task.scale[1] > 0 else 1.0

    def info(self) -> ModelInfo:
        """The model's entry in /api/models."""
        task, card = self.task, self.run.card
        return ModelInfo(
            name=self.name,
            tab=self.tab,
            method=self.run.method,
            task=task.name,
            kind=task.kind,
            input_kind=task.input_kind,
            input_size=task.input_size,
            max_size=task.max_size,
            features=task.features,
            coordinates=min([first for first, _ in task.groups.values()], default=task.features),
            feature_names=list(task.feature_names),
            latent=self.latent if self.takes_latent else 0,
            trained_steps=self.steps,
            max_steps=self.model.max_steps,
            aspect=self.aspect,
            samples=0 if self.source is None else len(self.source),
            first_sample=self.first_sample,
            parameters=self.model.parameter_count,
            scores={heading(k): shown(k, v) for k, v in card.metrics.items()} if card else {},
            date=card.date if card else "",
            note=card.note if card else "",
        )


def load_catalog(runs: Sequence[str | Path] = (), allow_own_code: bool = False) -> dict[str, Served]:
    """All shipped models, then the given runs, by names that are safe in an address.

    `allow_own_code` lets the runs import encoders and decoders of somebody's own, as `load` does.
    """
    models = {name: Served(name, name.partition("-")[0], load(folder), "test") for name, folder in shipped().items()}
    for path in runs:
        run = load(path, allow_own_code=allow_own_code)
        name = "run-" + (re.sub(r"[^a-zA-Z0-9_-]+", "-", run.name).strip("-") or "unnamed")
        while name in models:
            name += "-again"
        models[name] = Served(name, "run", run, "val")
    return models


def _is_on_this_machine(run: LoadedRun) -> bool:
    """Whether the data can be used as it is: the page does not download data sets."""
    data = run.experiment.data
    if data.name != "mnist":
        return True
    folder = Path(data.folder).expanduser() if data.folder else data_folder() / "mnist"
    return all((folder / name).is_file() or (folder / f"{name}.gz").is_file() for name, _ in FILES.values())
