"""Checkpoints: everything that training changes, written whole or not at all, loaded without pickled code."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from setpredict.config import ConfigError
from setpredict.core.files import atomic

if TYPE_CHECKING:
    from setpredict.training.loop import TrainState

COUNTS = ("step", "seconds", "best", "stale", "lr_scale", "rollbacks")


def save_checkpoint(path: Path, state: TrainState) -> None:
    """Write the state of a run; a crash on the way leaves the checkpoint before it."""
    content: dict[str, Any] = {name: getattr(state, name) for name in COUNTS}
    content["model"] = state.model.state_dict()
    content["optimizer"] = state.optimizer.state_dict()
    content["average"] = None if state.average is None else state.average.state_dict()
    content["random"] = torch.get_rng_state()
    content["cuda_random"] = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    content["precision"] = state.precision.state_dict()
    try:
        with atomic(path) as temporary:
            torch.save(content, temporary)
    except (OSError, RuntimeError) as e:  # torch reports a full disk as a RuntimeError of its writer
        kept = f"; {path} is still the one before" if path.exists() else ""
        raise OSError(f"cannot write the checkpoint {path}: {_first_line(e)}{kept}") from e


def load_checkpoint(path: Path, state: TrainState) -> None:
    """Put a run back to where its checkpoint was written."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: no checkpoint was written yet")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, LookupError, TypeError, AttributeError, pickle.UnpicklingError, ValueError) as e:
        raise ConfigError(f"{path} is not a readable checkpoint: {_first_line(e)}") from e
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is not a checkpoint of a run")
    missing = [n for n in (*COUNTS, "model", "optimizer", "average", "random") if n not in content]
    if missing:
        raise ConfigError(f"{path} is not a checkpoint of a run: it has no {missing[0]}")
    _must_fit(path, state.model.state_dict(), content["model"])
    if (content["average"] is None) != (state.average is None):
        raise ConfigError(f"{path} was written with another setting of --ema")
    state.model.load_state_dict(content["model"])
    options = [{k: v for k, v in g.items() if k != "params"} for g in state.optimizer.param_groups]
    state.optimizer.load_state_dict(content["optimizer"])
    for group, configured in zip(state.optimizer.param_groups, options):
        group.update(configured)  # which may have changed since
    if state.average is not None:
        state.average.load_state_dict(content["average"])
    for name in COUNTS:
        setattr(state, name, content[name])
    torch.set_rng_state(content["random"])
    if content.get("cuda_random") is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(content["cuda_random"])
    if content.get("precision"):
        state.precision.load_state_dict(content["precision"])


def _must_fit(path: Path, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for key in ours:
        if key not in theirs:
            raise ConfigError(f"{path} is of another model: it has no {key}")
        if ours[key].shape != theirs[key].shape:
            shapes = f"{tuple(theirs[key].shape)}, here it is {tuple(ours[key].shape)}"
            raise ConfigError(f"{path} is of another model: its {key} is {shapes}")
    extra = [key for key in theirs if key not in ours]
    if extra:
        raise ConfigError(f"{path} is of another model: {extra[0]} is not in this one")


def _first_line(e: Exception) -> str:
    return (str(e).splitlines() or [type(e).__name__])[0]
