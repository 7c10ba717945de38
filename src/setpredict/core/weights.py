"""Weights in safetensors files: written with a checksum, verified, and compared with a model before it is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_model
from torch import Tensor, nn

from setpredict.core.checksums import (
    NAME,
    NONE_YET,
    Damaged,
    add_safetensors_checksum,
    verify_safetensors_checksum,
)
from setpredict.core.errors import UserError, first_line

Rename = Callable[[dict[str, Tensor]], dict[str, Tensor]]

TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "BOOL": torch.bool,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
}  # fmt: skip
SPARE_BYTES = 64_000_000
"""What a model may hold beyond its weights: buffers that are computed when it is built."""


def save_weights(model: nn.Module, path: str | Path) -> None:
    """Write the weights of a model with their checksum; tensors that share memory are written once."""
    save_model(model, str(path), metadata={NAME: NONE_YET})
    add_safetensors_checksum(Path(path))


def read_header(path: Path) -> dict[str, Tensor]:
    """The names, types and shapes in a safetensors file, as tensors without data (on the device "meta")."""
    header = {}
    with _opened(path) as file:
        for name in file.keys():  # noqa: SIM118 (it is not a dictionary)
            part = file.get_slice(name)
            if part.get_dtype() not in TYPES:
                raise UserError(f"{path}: {name} has the type {part.get_dtype()}, which no model has")
            header[name] = torch.empty(part.get_shape(), dtype=TYPES[part.get_dtype()], device="meta")
    return header


def read_weights(path: Path, rename: Rename | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name, verified by their checksum if the file has one.

    `rename` migrates the names of an old file.
    """
    with _opened(path):  # its header is valid and describes all of the file
        verify_safetensors_checksum(path)
    tensors = load_file(path)
    return tensors if rename is None else rename(tensors)


def load_weights(model: nn.Module, path: Path, keep_precision: bool = False, rename: Rename | None = None) -> None:
    """Fill the model from a safetensors file, or raise an error that names what does not fit and change nothing.

    Numbers are converted to the model's precision; with `keep_precision`, the model is converted to the file's.
    """
    tensors = read_weights(path, rename)
    check_weights(model, tensors, path)
    check_finite(model, tensors, path)
    if keep_precision and any(t.dtype == torch.float64 for t in tensors.values()):
        model.double()
    model.load_state_dict(tensors, strict=False)


def check_header(build: Callable[[], nn.Module], path: Path, rename: Callable[[nn.Module], Rename]) -> None:
    """Raise a UserError if the model that `build` makes does not fit a safetensors file; nothing large is allocated.

    Args:
        build: Makes the model; it is called once, on the device "meta", where tensors have shapes but no data.
        path: The file.
        rename: For that model, the function that migrates the names of an old file.
    """
    header, size = read_header(path), path.stat().st_size
    model = build_without_data(build)
    check_weights(model, rename(model)(header), path)
    wanted = bytes_of(model)
    if wanted > 2 * size + SPARE_BYTES:
        raise UserError(f"{path} has {size:,} bytes, but the model beside it would take {wanted:,}")


def build_without_data(build: Callable[[], nn.Module]) -> nn.Module:
    """The model that `build` makes, on the device "meta", where tensors have shapes but no data."""
    try:
        with torch.device("meta"):
            return build()
    except (RuntimeError, OverflowError, MemoryError) as e:  # a number of bytes that no integer holds
        raise UserError(f"a model of these sizes cannot be built: {first_line(e)}") from None


def bytes_of(model: nn.Module) -> int:
    """The size of all parameters and buffers, also of those that are not saved."""
    return sum({id(t): t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers())}.values())


def check_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: Path) -> None:
    """Raise a UserError that names the tensors of `where` that do not fit the model."""
    own = model.state_dict(keep_vars=True)
    storage = {name: id(t) if t.is_meta else t.data_ptr() for name, t in own.items()}
    given = {storage[name] for name in tensors if name in own}
    missing = [name for name in own if name not in tensors and storage[name] not in given]  # shared ones are saved once
    unexpected = [name for name in tensors if name not in own]
    shapes = {name: (tuple(t.shape), tuple(own[name].shape)) for name, t in tensors.items() if name in own}
    differing = [f"{name} is {theirs}, not {ours}" for name, (theirs, ours) in shapes.items() if theirs != ours]
    kinds = {name: (t.dtype, own[name].dtype) for name, t in tensors.items() if name in own}
    others = [f"{name} is {a}, not {b}" for name, (a, b) in kinds.items() if a.is_floating_point != b.is_floating_point]
    problems = [("missing: ", missing), ("not in this model: ", unexpected), ("of another shape: ", differing)]
    problems.append(("of another type: ", others))
    if any(names for _, names in problems):
        text = "; ".join(label + _first_few(names) for label, names in problems if names)
        raise UserError(f"{where} does not fit the model: {text}")


def check_finite(model: nn.Module, tensors: Mapping[str, Tensor], where: Path | str) -> None:
    """Raise Damaged if the weights for a model in `where` have a NaN or an infinity."""
    wrong = not_finite(model, tensors)
    if wrong:
        raise Damaged(f"{where} has weights that are not finite: {_first_few(wrong)}")


def not_finite(model: nn.Module, tensors: Mapping[str, Tensor]) -> list[str]:
    """The names of the tensors with a NaN or an infinity; buffers may have infinities, such as a mask of −∞."""
    buffers = {name for name, _ in model.named_buffers(remove_duplicate=False)}
    wrong = []
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            good = ~torch.isnan(tensor) if name in buffers else torch.isfinite(tensor)
            if not bool(good.all()):
                wrong.append(name)
    return wrong


def _opened(path: Path):
    if not path.is_file():
        raise UserError(f"{path} not found: is {path.parent} a saved model?")
    try:
        return safe_open(str(path), framework="pt")
    except SafetensorError as e:
        raise Damaged(f"{path} is not a readable safetensors file: {e}") from None


def _first_few(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
