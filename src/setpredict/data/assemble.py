"""From the samples of each split to a SetTask: what the elements are, their ranges, categories and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from setpredict.config import ElementKind
from setpredict.core.errors import UserError
from setpredict.data.features import SIDES, Features
from setpredict.data.io.jsonl import Records
from setpredict.data.ragged import RaggedArray, place_centers
from setpredict.data.splits import StoredSplit, train_val_split
from setpredict.data.task import SetTask

KINDS: tuple[ElementKind, ...] = get_args(ElementKind)


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of all splits."""

    arrays: Mapping[str, np.ndarray | RaggedArray]
    """By split: images (S, 3, H, W) uint8, vectors (S, V) float32, or sets."""
    size: int
    """Side of the images, length of the vectors, or features per element."""
    offset: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    """The arrays hold `(input - offset) / scale` of the user's numbers (None: images)."""


def assemble(
    name: str,
    sources: Mapping[str, Records],
    inputs: Inputs,
    kind: ElementKind,
    names: Sequence[str] | None,
    extent: Sequence[float] | None,
    val: float,
    seed: int,
    trains: bool = True,
) -> SetTask:
    """The task of these samples.

    Args:
        name: Its name.
        sources: The samples of train and, where there are any, of val and test.
        inputs: Their inputs.
        kind: What the elements are.
        names: Of the columns of an element (None: as `column_names` says).
        extent: The range of the first columns is from 0 to these values, such as the size of an image.
        val: Without a val split, this fraction of the training samples becomes one, selected by `seed`.
        seed: Of that selection.
        trains: Whether "train" is for training; if not, all of it is the val split.
    """
    train = sources["train"]
    sides = ((0, 2), (1, 3)) if kind == "boxes" else ()  # left and right, top and bottom: overlaps need the same unit
    features = Features.fit(train, column_names(kind, train.columns or []) if names is None else names, extent, sides)
    targets = {split: features.encode(records) for split, records in sources.items()}
    N = max(1, *(int(t.sizes.max()) for t in targets.values()))
    input_sizes = {int(n) for x in inputs.arrays.values() if isinstance(x, RaggedArray) for n in np.unique(x.sizes)}
    has_centers = (
        train.input_kind == "image" and kind in ("boxes", "points") and (train.columns or [])[:2] == [False, False]
    )

    def split(name: str, chosen: np.ndarray | None = None) -> StoredSplit:
        chosen = np.arange(len(targets[name])) if chosen is None else chosen
        centers = place_centers(targets[name], kind) if kind in ("boxes", "points") and has_centers else None
        return StoredSplit(inputs.arrays[name], targets[name], chosen, N, max(input_sizes, default=0), centers)

    if "val" in sources:
        training, validation = split("train"), split("val")
    else:
        training, validation = (split("train", c) for c in train_val_split(len(targets["train"]), val, seed))
    if not trains:
        training, validation = split("train", np.arange(0)), training.joined(validation)
    sizes = {int(n) for t in targets.values() for n in np.unique(t.sizes)}
    assert train.input_kind is not None
    return SetTask(
        name=name,
        input_kind=train.input_kind,
        input_size=inputs.size,
        max_size=N,
        features=features.width,
        variable=len(sizes) > 1,
        kind=kind,
        train=training,
        val=validation,
        test=split("test") if "test" in sources else validation,
        feature_names=features.feature_names,
        groups=features.groups,
        categories=features.categories,
        offset=features.per_feature(features.offset, 0.0),
        scale=features.per_feature(features.scale, 1.0),
        input_offset=inputs.offset,
        input_scale=inputs.scale,
        max_input_size=max(input_sizes, default=0),
        input_variable=len(input_sizes) > 1 if input_sizes else None,
        has_centers=has_centers,
        divided=0 if "val" in sources else len(targets["train"]),
        auto_encodes=train.input_kind == "set" and all(r.inputs == r.sets for r in sources.values()),
    )


def column_names(kind: ElementKind, columns: Sequence[bool]) -> list[str]:
    """Names for the columns of elements without any; of each column, `columns` tells whether it is a category.

    >>> column_names("boxes", [False] * 4 + [True]), column_names("vectors", [False, True])
    (['left', 'top', 'right', 'bottom', 'category'], ['x0', 'x1'])
    """
    known = {"boxes": SIDES, "points": ("x", "y", "z")}.get(kind)
    if known is None:
        return [f"x{j}" for j in range(len(columns))]
    categories = iter(["category", *(f"category {k}" for k in range(2, len(columns) + 1))])
    return [next(categories) if c else known[j] if j < len(known) else f"x{j}" for j, c in enumerate(columns)]


def infer_kind(train: Records) -> ElementKind:
    """Two or three numbers are a point, four numbers for an image are a box if left ≤ right and top ≤ bottom in all
    elements, and anything else is a vector."""
    columns = train.columns or []
    if len(columns) in (2, 3) and not any(columns):
        return "points"
    if len(columns) >= 4 and not any(columns[:4]) and all(columns[4:]) and train.input_kind == "image":
        corners = np.array([e[:4] for s in train.sets for e in s], np.float64)
        if (corners[:, 2:] >= corners[:, :2]).all():
            return "boxes"
    return "vectors"


def check_kind(path: Path, kind: ElementKind, columns: list[bool]) -> None:
    """Raise if the kind in task.json does not fit the columns (for each: whether it is a category)."""
    if kind == "boxes" and (columns[:4] != [False] * 4 or not all(columns[4:])):
        raise UserError(f"{path}: boxes need four numbers (left, top, right, bottom), followed by categories only")
    if kind == "states" and (columns[0] or columns != sorted(columns)):
        raise UserError(f"{path}: states need numbers first, followed by categories only")
    if kind == "polygons" and columns[:2] != [False] * 2:
        raise UserError(f"{path}: polygons need two numbers first: x, y")
    if kind == "points" and columns[0]:
        raise UserError(f"{path}: points need numbers first, followed by categories")


def are_fractions(sources: Mapping[str, Records], count: int) -> bool:
    """Whether the first numbers of elements, places in an image, are fractions of it and not pixels.

    Labels that were rounded may be a little above 1.
    """
    largest = max((float(v) for r in sources.values() for s in r.sets for e in s for v in e[:count]), default=1.0)
    if 1.05 < largest < 2:
        raise UserError(
            f"coordinates go up to {largest:g}: neither fractions of the image, from 0 to 1, nor pixels; correct the "
            "elements that are outside of their image"
        )
    return largest <= 1.05


def scaled_inputs(sources: Mapping[str, Records]) -> tuple[dict[str, np.ndarray | RaggedArray], tuple, tuple]:
    """Vectors or sets scaled to [0, 1] by their range in the training data, and that range as offset and scale."""
    train = sources["train"]
    width = train.input_width or 0
    if width == 0:
        raise UserError(f"{train.path}: every input is empty")
    rows = [np.array(x, np.float64).reshape(-1, width) for x in train.inputs]
    low, high = np.concatenate(rows).min(0), np.concatenate(rows).max(0)
    scale = np.where(high > low, high - low, 1.0)
    result: dict[str, np.ndarray | RaggedArray] = {}
    for name, records in sources.items():
        arrays = [(np.array(x, np.float64).reshape(-1, width) - low) / scale for x in records.inputs]
        vectors = train.input_kind == "vector"
        result[name] = np.concatenate(arrays).astype(np.float32) if vectors else RaggedArray.of(arrays, width)
    return result, tuple(low.tolist()), tuple(scale.tolist())
