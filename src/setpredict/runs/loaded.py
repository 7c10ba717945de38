"""Trained models, from a run's folder or by the name of a shipped model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from setpredict.build import make_task
from setpredict.config import DataConfig, Experiment, LossConfig, from_dict
from setpredict.core.errors import UserError, did_you_mean
from setpredict.data.description import changed_since, read_description
from setpredict.data.task import SetTask
from setpredict.model import CONFIG, WEIGHTS, SetPredictor, read_config
from setpredict.runs.card import Card
from setpredict.runs.folder import DESCRIPTION, RunFolder
from setpredict.runs.own_code import allow_own_code as allow
from setpredict.runs.own_code import own_kinds
from setpredict.runs.shipped import CARD, shipped


@dataclass
class LoadedRun:
    """A trained model, the description of its data and its settings."""

    name: str
    """The name of the run's folder or of the shipped model."""
    model: SetPredictor
    """The best weights, in evaluation mode."""
    task: SetTask
    """The description of the data, without samples."""
    experiment: Experiment
    """A shipped model has the default training options here: its card has the command that trained it."""
    folder: RunFolder | None = None
    """Where the run is; None for a shipped model."""
    card: Card | None = None
    """The model card of a shipped model; None for a run."""

    @cached_property
    def data(self) -> SetTask:
        """The data set with its samples, loaded when first used; a UserError if it has changed since the training."""
        task = make_task(self.experiment.data)
        if self.folder is not None and (changed := changed_since(self.task, task)):
            advice = f"Restore them, or measure it on the new data: --data.folder {self.experiment.data.folder}"
            raise UserError(f"the data of {self.name} have changed since its training: {changed}. {advice}")
        return task

    @property
    def steps(self) -> int:
        """T as trained; 0 for one-shot decoders."""
        return self.model.steps

    @property
    def method(self) -> str:
        """The decoder's name in tables."""
        return self.experiment.decoder.method

    @property
    def own_folder(self) -> RunFolder:
        """The run's folder; a UserError for a shipped model, which has none."""
        if self.folder is None:
            raise UserError(f"{self.name} is a shipped model; this needs the folder of a run")
        return self.folder


def load(name_or_path: str | Path, device: str = "cpu", allow_own_code: bool = False) -> LoadedRun:
    """Load the best model of a run, or a shipped model.

    Args:
        name_or_path: The folder of a run, or where there is no such folder, the name of a shipped model.
        device: Where the weights go.
        allow_own_code: Import encoders and decoders of somebody's own (module:Class) that the model asks for. Those of
            runs that you trained on this machine are imported anyway.

    >>> load("points-idspn").method
    'iDSPN'
    """
    folder = RunFolder(find(name_or_path))
    place = _place(folder)
    kinds = own_kinds(read_config(place / CONFIG))
    allow(folder, kinds, allow_own_code)
    model = SetPredictor.from_pretrained(place, device, allow_own_code=bool(kinds))
    return _loaded_run(folder, model) if place != folder.path else _loaded_shipped(folder.path, model)


def own_classes(name_or_path: str | Path) -> list[str]:
    """The classes module:Class that a run is made of, without importing them."""
    return own_kinds(read_config(_place(RunFolder(find(name_or_path))) / CONFIG))


def find(name_or_path: str | Path) -> Path:
    """The folder of a run, or of the shipped model of that name where there is no such folder."""
    path = Path(name_or_path)
    if path.exists():
        return path
    models = shipped()
    if str(path) not in models:
        near = did_you_mean(str(path), models)
        raise UserError(f"run {path} not found{near or ';'} shipped models are {', '.join(models)}")
    return models[str(path)]


def _place(folder: RunFolder) -> Path:
    """The folder of the weights: that of a shipped model itself, or that of a run's best model."""
    return folder.path if (folder.path / CARD).is_file() else _best(folder)


def _best(folder: RunFolder) -> Path:
    """The folder of a run's best model."""
    if (folder.path / WEIGHTS).is_file() and not folder.description_path.is_file():
        raise UserError(
            f"{folder} has saved weights, and is not a run: name the run that it belongs to, or load it in Python with "
            "SetPredictor.from_pretrained"
        )
    folder.read_experiment()  # says what is wrong with a folder that is not a run
    if not folder.has_model:
        raise UserError(f"{folder} has no validated model yet: {folder.best_path} not found")
    return folder.best_path


def _loaded_run(folder: RunFolder, model: SetPredictor) -> LoadedRun:
    name, experiment = folder.path.resolve().name, folder.read_experiment()
    return LoadedRun(name, model, folder.read_description(), experiment, folder=folder)


def _loaded_shipped(folder: Path, model: SetPredictor) -> LoadedRun:
    card, where = Card.read(folder), str(folder / CARD)
    assert model.config is not None
    experiment = Experiment(
        data=from_dict(DataConfig, card.data, f"{where}: data"),
        latent=model.config.latent,
        input=model.config.input,
        encoder=model.config.encoder,
        decoder=model.config.decoder,
        loss=from_dict(LossConfig, card.loss, f"{where}: loss"),
    )
    return LoadedRun(folder.name, model, read_description(folder / DESCRIPTION), experiment, card=card)
