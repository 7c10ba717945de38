"""Checkpoints: everything that training changes, written atomically with a checksum, loaded without executing code."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from setpredict.core.checksums import Damaged, add_zip_checksum, verify_zip_checksum
from setpredict.core.errors import NotFinite, UserError, first_line
from setpredict.core.files import atomic, keep_previous
from setpredict.core.weights import check_finite, check_weights, not_finite
from setpredict.model import migrate_weights

if TYPE_CHECKING:
    from setpredict.training.loop import TrainState

VERSION = 2
COUNTS = (
    "step", "position", "batches", "seconds", "best", "stale", "validated_at", "warming", "warmed_at", "lr_scale",
    "rollbacks",
)  # fmt: skip


def save_checkpoint(path: Path, state: TrainState, previous: Path | None = None) -> None:
    """Write the state of a training; if that fails, the last checkpoint stays. With `previous`, it is kept there."""
    content: dict[str, Any] = {"version": VERSION, **{name: getattr(state, name) for name in COUNTS}}
    content["model"] = state.model.state_dict()
    content["optimizer"] = state.optimizer.state_dict()
    content["average"] = None if state.average is None else state.average.state_dict()
    content["random"] = torch.get_rng_state()
    device = next(state.model.parameters()).device
    content["cuda_random"] = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    content["precision"] = state.precision.state_dict()
    try:
        with atomic(path) as temporary:
            torch.save(content, temporary)
            add_zip_checksum(temporary)
            if previous is not None:
                keep_previous(path, previous)
    except (OSError, RuntimeError) as e:  # torch reports a full disk as a RuntimeError of its writer
        kept = f"; {path} is still the previous one" if path.exists() else ""
        raise UserError(f"cannot write the checkpoint {path}: {first_line(e)}{kept}") from e


def check_state(state: TrainState) -> NotFinite | None:
    """The problem if weights are not finite: such a state is not worth a checkpoint."""
    for model in (state.model, state.average):
        wrong = [] if model is None else not_finite(model, model.state_dict())
        if wrong:
            return NotFinite(f"the weights {wrong[0]} are not finite")
    return None


def load_checkpoint(path: Path, state: TrainState) -> None:
    """Restore the state of a training from a checkpoint of this version or an older one; Damaged if it is not valid."""
    content = _migrate(_read(path), state, path)
    missing = [n for n in (*COUNTS, "model", "optimizer", "average", "random") if n not in content]
    if missing:
        raise Damaged(f"{path} is not a checkpoint of a run: it has no {missing[0]!r}")
    if (content["average"] is None) != (state.average is None):
        raise UserError(f"{path} was written with another setting of --ema")
    for model, name in ((state.model, "model"), (state.average, "average")):
        if model is not None:
            check_weights(model, content[name], path)
            check_finite(model, content[name], path)
    state.model.load_state_dict(content["model"])
    options = [{k: v for k, v in g.items() if k != "params"} for g in state.optimizer.param_groups]
    state.optimizer.load_state_dict(content["optimizer"])
    for group, configured in zip(state.optimizer.param_groups, options):
        group.update(configured)  # the options may have changed since
    if state.average is not None:
        state.average.load_state_dict(content["average"])
    for name in COUNTS:
        setattr(state, name, content[name])
    torch.set_rng_state(content["random"])
    device = next(state.model.parameters()).device
    if content.get("cuda_random") is not None and device.type == "cuda":
        torch.cuda.set_rng_state(content["cuda_random"], device)
    if content.get("precision"):
        state.precision.load_state_dict(content["precision"])


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"{path} not found: no checkpoint was written yet")
    verify_zip_checksum(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, LookupError, TypeError, AttributeError, pickle.UnpicklingError, ValueError) as e:
        raise Damaged(f"{path} is not a readable checkpoint: {first_line(e)}") from e
    if not isinstance(content, dict):
        raise Damaged(f"{path} is not a checkpoint of a run")
    return content


def _migrate(content: dict[str, Any], state: TrainState, path: Path) -> dict[str, Any]:
    """The content in the form of this version."""
    version = content.get("version", 1)
    if version not in range(1, VERSION + 1):
        raise UserError(f"{path} is a checkpoint of version {version!r}, expected 1 to {VERSION}: update setpredict")
    if version == 1 and "optimiser" in content:
        content["optimizer"] = content.pop("optimiser")
    unknown = {"validated_at": -1, "warming": False, "warmed_at": 0, "position": 0, "batches": 0}  # to older ones
    for name, value in unknown.items():
        content.setdefault(name, value)
    for name in ("model", "average"):
        if isinstance(content.get(name), dict):
            content[name] = migrate_weights(state.model, dict(content[name]))
    return content
