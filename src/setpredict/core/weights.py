"""Weights from a safetensors file, or a dictionary of tensors, into a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from setpredict.core.errors import UserError

Rename = Callable[[dict[str, Tensor]], dict[str, Tensor]]


def read_weights(path: Path, rename: Rename | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name; `rename` migrates the names of an old file."""
    if not path.is_file():
        raise UserError(f"{path} not found: is {path.parent} a saved model?")
    try:
        tensors = load_file(path)
    except SafetensorError as e:
        raise UserError(f"{path} is not a readable safetensors file: {e}") from None
    return tensors if rename is None else rename(tensors)


def load_weights(model: nn.Module, path: Path, keep_precision: bool = False, rename: Rename | None = None) -> None:
    """Fill the model from a safetensors file, or raise an error that names what does not fit and change nothing.

    Numbers are converted to the model's precision; with `keep_precision`, the model is converted to the file's.
    """
    tensors = read_weights(path, rename)
    check_weights(model, tensors, path)
    if keep_precision and any(t.dtype == torch.float64 for t in tensors.values()):
        model.double()
    model.load_state_dict(tensors, strict=False)


def check_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: Path) -> None:
    """Raise a UserError that names the tensors of `where` that do not fit the model."""
    own = model.state_dict()
    storage = {name: tensor.data_ptr() for name, tensor in own.items()}
    given = {storage[name] for name in tensors if name in own}
    missing = [name for name in own if name not in tensors and storage[name] not in given]  # shared ones are saved once
    unexpected = [name for name in tensors if name not in own]
    shapes = {name: (tuple(t.shape), tuple(own[name].shape)) for name, t in tensors.items() if name in own}
    differing = [f"{name} is {theirs}, not {ours}" for name, (theirs, ours) in shapes.items() if theirs != ours]
    problems = [("missing: ", missing), ("not in this model: ", unexpected), ("of another shape: ", differing)]
    if any(names for _, names in problems):
        text = "; ".join(label + _first_few(names) for label, names in problems if names)
        raise UserError(f"{where} does not fit the model: {text}")


def _first_few(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
