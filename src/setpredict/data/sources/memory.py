"""Data in memory: arrays or lists of inputs and sets, or any `torch.utils.data.Dataset` of such pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from setpredict.config import ElementKind
from setpredict.core.errors import UserError
from setpredict.data.assemble import KINDS, Inputs, are_fractions, assemble, check_kind, infer_kind, scaled_inputs
from setpredict.data.io.json_text import FINITE, LARGEST
from setpredict.data.io.jsonl import Records
from setpredict.data.task import SetTask
from setpredict.sets import Sets

Pairs = Any
"""(inputs, sets), two sequences of the same length; or a sequence or Dataset whose items are (input, set)."""


def memory(
    train: Pairs,
    *,
    val: Pairs | float = 0.1,
    test: Pairs | None = None,
    kind: ElementKind | None = None,
    features: Sequence[str] | None = None,
    seed: int = 0,
    name: str = "memory",
) -> SetTask:
    """The task of samples in memory.

    An input is a vector, a set (a 2-d array) or an image: (3, S, S) or (S, S, 3), uint8 or floats from 0 to 1, all of
    the same size. A set is a 2-d array (its elements and their features; n may differ), or a list of elements, which
    can then have category names. Boxes and points in images are in pixels or fractions of the image.

    Args:
        train: (inputs, sets), or a Dataset of (input, set).
        val: The same for validation, or the fraction of the training samples to use for it.
        test: The same for the final test (None: as val).
        kind: What the elements are (None: found out).
        features: Names of the columns of an element.
        seed: Selects the validation samples.
        name: The name of the task.

    >>> rng = np.random.default_rng(0)
    >>> memory((rng.normal(size=(50, 6)), [rng.normal(size=(n % 4, 2)) for n in range(50)]))
    SetTask(memory: vector of 6 → up to 3 points with 2 features; 45 train, 5 val, 5 test)
    """
    part = float(val) if isinstance(val, float | int | np.floating) else None
    given = {"train": train, "val": None if part is not None else val, "test": test}
    if kind is not None and kind not in KINDS:
        raise UserError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    sources = {}
    for split, pairs in given.items():
        if pairs is not None:
            sources[split] = _records(split, pairs, sources.get("train"))
    records = sources["train"]
    kind = kind or infer_kind(records)
    if records.columns is not None:
        check_kind(Path("kind"), kind, records.columns)
    if records.input_kind == "image":
        images: dict[str, Any] = {split: np.stack(r.inputs) for split, r in sources.items()}
        side = images["train"].shape[-1]
        inputs = Inputs(images, side)
    else:
        side = 0
        arrays, offset, scale = scaled_inputs(sources)
        inputs = Inputs(arrays, records.input_width or 0, offset, scale)
    extent = _extent(sources, kind, side) if side else None
    return assemble(name, sources, inputs, kind, features, extent, part or 0.0, seed)


def _records(split: str, pairs: Pairs, like: Records | None) -> Records:
    """The samples of a split as the reader of files has them; errors name the split and the sample."""
    records = Records(Path(split))
    for i, (given, elements) in enumerate(_each(split, pairs)):
        if any(isinstance(array, np.ma.MaskedArray) for array in (given, elements)):
            raise UserError(f"{split}, sample {i}: a masked array; give only the elements that are in the set")
        value, kind, width = _input(split, i, given)
        first = like or (records if records.inputs else None)
        if not like and (records.input_kind, records.input_width, kind) == ("vector", 0, "set"):
            first = None  # the inputs so far were empty sets
        if first and first.input_kind == "set" and (kind, width) == ("vector", 0):  # the empty set as a list
            kind, width = "set", first.input_width
        if first and (kind, width) != (first.input_kind, first.input_width):
            before = _say(first.input_kind, first.input_width)
            raise UserError(f"{split}, sample {i}: the input is {_say(kind, width)}, not {before}")
        records.input_kind, records.input_width = kind, width
        records.inputs.append(value)
        records.sets.append(_elements(split, i, elements, records, like))
        records.lines.append(i)
    if not records.inputs:
        raise UserError(f"{split} has no samples")
    if records.columns is None and like is not None:
        records.columns = like.columns
    return records


def _each(split: str, pairs: Pairs) -> Iterator[tuple[Any, Any]]:
    if isinstance(pairs, Mapping):
        raise UserError(f"{split} must be (inputs, sets) or a Dataset of (input, set), got a {type(pairs).__name__}")
    if isinstance(pairs, tuple) and len(pairs) == 2:
        inputs, sets = pairs
        sets = sets.to_list() if isinstance(sets, Sets) else sets
        inputs = inputs.to_list() if isinstance(inputs, Sets) else inputs
        if len(inputs) != len(sets):
            raise UserError(f"{split} has {len(inputs)} inputs and {len(sets)} sets")
        yield from zip(inputs, sets)
        return
    if not hasattr(pairs, "__getitem__") or not hasattr(pairs, "__len__"):
        problem = f"(inputs, sets), or a sequence or Dataset of (input, set), got {type(pairs).__name__}"
        raise UserError(f"{split} must be {problem}; list(…) makes a sequence of a generator")
    for i in range(len(pairs)):
        item = pairs[i]
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise UserError(f"{split}, sample {i}: expected (input, set), got {type(item).__name__}")
        yield item[0], item[1]


def _array(value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.dtype == torch.bfloat16 else value).numpy()  # NumPy has no bfloat16
    return np.asarray(value)


def _input(split: str, i: int, given: Any) -> tuple[Any, Any, int]:
    """The input as files have it, its kind, and its length, width or side."""
    try:
        array = _array(given)
    except ValueError:
        raise UserError(f"{split}, sample {i}: the input must be an array, got a list of unequal lists") from None
    if array.ndim == 3:
        array = array.transpose(2, 0, 1) if array.shape[-1] == 3 and array.shape[0] != 3 else array
        if array.shape[0] != 3 or array.shape[1] != array.shape[2]:
            raise UserError(f"{split}, sample {i}: an image must be (3, S, S) or (S, S, 3), got {array.shape}")
        if array.dtype != np.uint8:
            if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
                raise UserError(f"{split}, sample {i}: an image must be uint8, or floats from 0 to 1")
            array = np.round(array * 255).astype(np.uint8)
        return array, "image", array.shape[-1]
    if array.ndim not in (1, 2) or array.dtype.kind not in "fiub" or not (abs(array) <= LARGEST).all():
        raise UserError(f"{split}, sample {i}: the input must be {FINITE}: a vector, a set (n, D) or an image")
    if array.ndim == 2 and array.dtype == np.uint8 and array.shape[0] == array.shape[1] > 4:
        problem = (
            f"uint8 of shape {array.shape} looks like a gray image; repeat it to (3, S, S), or convert a set to float"
        )
        raise UserError(f"{split}, sample {i}: {problem}")
    return array.tolist(), "vector" if array.ndim == 1 else "set", array.shape[-1]


def _elements(split: str, i: int, given: Any, records: Records, like: Records | None) -> list:
    try:
        rows = given if isinstance(given, list) and any(isinstance(v, str) for e in given for v in e) else None
        array = _array(given if rows is None else [])
    except (TypeError, ValueError):
        raise UserError(f"{split}, sample {i}: a set must be a list of elements with the same features") from None
    if rows is None:
        if array.size == 0:
            return []
        if array.ndim != 2 or array.dtype.kind not in "fiub" or not np.isfinite(array).all():
            raise UserError(
                f"{split}, sample {i}: a set must be finite numbers of shape (n, D), got {array.dtype} {array.shape}"
            )
        rows = array.tolist()
    columns = like.columns if like is not None and like.columns is not None else records.columns
    for element in rows:
        found = [isinstance(v, str) for v in element]
        columns = columns or found
        if wrong := [v for v in element if not (isinstance(v, str) or _is_finite(v))]:
            raise UserError(f"{split}, sample {i}: a feature must be text or one of the {FINITE}, got {wrong[0]!r}")
        if found != columns:
            raise UserError(
                f"{split}, sample {i}: elements must all have the same {len(columns)} features, got {element}"
            )
    records.columns = columns
    return [list(element) for element in rows]


def _is_finite(value: Any) -> bool:
    """Whether a value is a number that fits into float32, also one of numpy's."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return is_number and bool(abs(value) <= LARGEST)


def _extent(sources: Mapping[str, Records], kind: ElementKind, side: int) -> list[float] | None:
    """The size of the images in the unit of the coordinates of boxes and points, which become fractions of it."""
    columns = [*(sources["train"].columns or []), True]
    count = min({"boxes": 4, "points": 2}.get(kind, 0), columns.index(True))
    if not count:
        return None
    return [1.0 if are_fractions(sources, count) else float(side)] * count


def _say(kind: str | None, width: int | None) -> str:
    names = {"image": f"an image of side {width}", "vector": f"a vector of {width} numbers"}
    return names.get(str(kind), f"a set of elements with {width} features")
