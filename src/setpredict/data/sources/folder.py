"""Your own data: a folder with train.jsonl and val.jsonl, with one line {"input": …, "set": [[…], …]} per sample."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from setpredict.core.errors import UserError
from setpredict.core.paths import fingerprint
from setpredict.data.features import Features
from setpredict.data.io.images import image_cache, image_size
from setpredict.data.io.inside import find_outside
from setpredict.data.io.json_text import read_json
from setpredict.data.io.jsonl import Records, read_jsonl
from setpredict.data.ragged import RaggedArray, place_centers
from setpredict.data.splits import StoredSplit, train_val_split
from setpredict.data.task import SetTask

Kind = Literal["points", "polygons", "boxes", "states", "vectors"]
KINDS: tuple[Kind, ...] = ("points", "polygons", "boxes", "states", "vectors")


def folder(
    folder: str | os.PathLike, *, size: int = 128, seed: int = 0, val: float = 0.1, allow_outside: bool = False
) -> SetTask:
    """The task in a folder of jsonl files; sizes, dimensions and ranges are inferred and validated.

    An input is an image file (relative to the folder), a list of numbers, or a list of such lists (a set). Elements
    consist of numbers and category names. Without val.jsonl, the fraction `val` of the training samples, selected by
    `seed`, becomes the val split; without test.jsonl, the test split is the val split. An optional task.json has the
    form {"features": [names], "kind": "points", "polygons", "boxes", "states" or "vectors"}. Images are resized to
    size × size; boxes (left, top, right, bottom) and points in them are in pixels or fractions of the image. An image
    outside the folder, by ../, an absolute path or a symbolic link, is an error without `allow_outside`.
    """
    root = Path(folder).expanduser()
    if not (root / "train.jsonl").is_file():
        raise UserError(f"{root / 'train.jsonl'} not found")
    settings = _read_settings(root)
    train = read_jsonl(root / "train.jsonl")
    others = {
        name: read_jsonl(root / f"{name}.jsonl", like=train)
        for name in ("val", "test")
        if (root / f"{name}.jsonl").is_file()
    }
    if train.input_kind is None:
        raise UserError(f"{train.path}: every input is empty")
    kind = settings.kind or _infer_kind(train)
    if train.columns is not None:
        _check_kind(root / "task.json", kind, train.columns)
    sources = {"train": train, **others}
    _check_images(root, sources, allow_outside)
    sides = ((0, 2), (1, 3)) if kind == "boxes" else ()  # left and right, top and bottom: overlaps need the same unit
    features = Features.fit(train, settings.features, _extent(root, sources, kind), sides)
    targets = {name: features.encode(records) for name, records in sources.items()}
    inputs, offset, scale = _load_inputs(root, sources, size)
    N = max(1, *(int(t.sizes.max()) for t in targets.values()))
    input_sizes = {int(n) for x in inputs.values() if isinstance(x, RaggedArray) for n in np.unique(x.sizes)}
    max_input_size = max(input_sizes, default=0)

    has_centers = (
        train.input_kind == "image" and kind in ("boxes", "points") and (train.columns or [])[:2] == [False, False]
    )

    def split(name: str, chosen: np.ndarray | None = None) -> StoredSplit:
        chosen = np.arange(len(targets[name])) if chosen is None else chosen
        centers = place_centers(targets[name], kind) if kind in ("boxes", "points") and has_centers else None
        return StoredSplit(inputs[name], targets[name], chosen, N, max_input_size, centers)

    if "val" in others:
        training, validation = split("train"), split("val")
    else:
        training, validation = (split("train", c) for c in train_val_split(len(targets["train"]), val, seed))
    sizes = {int(n) for t in targets.values() for n in np.unique(t.sizes)}
    return SetTask(
        name=root.resolve().name,
        input_kind=train.input_kind,
        input_size=size if train.input_kind == "image" else train.input_width or 0,
        max_size=N,
        features=features.width,
        variable=len(sizes) > 1,
        kind=kind,
        train=training,
        val=validation,
        test=split("test") if "test" in others else validation,
        feature_names=features.feature_names,
        groups=features.groups,
        categories=features.categories,
        offset=features.per_feature(features.offset, 0.0),
        scale=features.per_feature(features.scale, 1.0),
        input_offset=offset,
        input_scale=scale,
        max_input_size=max_input_size,
        input_variable=len(input_sizes) > 1 if input_sizes else None,
        has_centers=has_centers,
        auto_encodes=train.input_kind == "set" and all(r.inputs == r.sets for r in sources.values()),
    )


@dataclass(frozen=True)
class _Settings:
    features: list[str] | None = None
    kind: Kind | None = None


def _read_settings(root: Path) -> _Settings:
    path = root / "task.json"
    if not path.exists():
        return _Settings()
    content = read_json(path)
    if not isinstance(content, dict):
        raise UserError(f'{path}: expected {{"features": …, "kind": …}}')
    for name in content:
        if name not in ("features", "kind"):
            raise UserError(f"{path}: unknown field {name!r}; expected features or kind")
    names, kind = content.get("features"), content.get("kind")
    if names is not None and not (isinstance(names, list) and all(isinstance(n, str) for n in names)):
        raise UserError(f"{path}: features must be a list of names, got {names!r}")
    if kind is not None and kind not in KINDS:
        raise UserError(f"{path}: kind must be one of {', '.join(KINDS)}, got {kind!r}")
    return _Settings(names, kind)


def _infer_kind(train: Records) -> Kind:
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


def _check_kind(path: Path, kind: Kind, columns: list[bool]) -> None:
    """Raise if the kind in task.json does not fit the columns (for each: whether it is a category)."""
    if kind == "boxes" and (columns[:4] != [False] * 4 or not all(columns[4:])):
        raise UserError(f"{path}: boxes need four numbers (left, top, right, bottom), followed by categories only")
    if kind == "states" and (columns[0] or columns != sorted(columns)):
        raise UserError(f"{path}: states need numbers first, followed by categories only")
    if kind == "polygons" and columns[:2] != [False] * 2:
        raise UserError(f"{path}: polygons need two numbers first: x, y")
    if kind == "points" and columns[0]:
        raise UserError(f"{path}: points need numbers first, followed by categories")


def _check_images(root: Path, sources: dict[str, Records], allow_outside: bool) -> None:
    for records in sources.values():
        if records.input_kind == "image":
            for line, file in zip(records.lines, records.inputs):
                if not (root / file).is_file():
                    raise records.error(line, f"image {file} not found in {root}")
            if not allow_outside and (outside := find_outside(root, records.inputs)):
                raise records.error(records.lines[outside[0]], outside[1])


def _extent(root: Path, sources: dict[str, Records], kind: Kind) -> list[float] | None:
    """For boxes and points in images: the image size in the unit of the coordinates, to make them fractions of it.

    Coordinates up to 1 are fractions already. Otherwise they are pixels; since all images are resized to one size,
    predictions can be converted back to pixels only if all images have the same size.
    """
    train = sources["train"]
    columns = [*(train.columns or []), True]
    count = min({"boxes": 4, "points": 2}.get(kind, 0), columns.index(True))  # points may have only one number
    if train.input_kind != "image" or count == 0:
        return None
    largest = max((float(v) for r in sources.values() for s in r.sets for e in s for v in e[:count]), default=1.0)
    if largest <= 1:
        return [1.0] * count
    sizes = {}
    for records in sources.values():
        for line, file in zip(records.lines, records.inputs):
            sizes.setdefault(image_size(root / file), (records, line))
    if len(sizes) > 1:
        (first, _), (second, (records, line)) = list(sizes.items())[:2]
        raise records.error(
            line,
            f"the image is {second[0]}×{second[1]}, others are {first[0]}×{first[1]}: with images of different sizes, "
            "coordinates must be fractions of the image, from 0 to 1",
        )
    return ([float(v) for v in next(iter(sizes))] * 2)[:count]


def _load_inputs(root: Path, sources: dict[str, Records], size: int):
    """The inputs of each file, and offset and scale of the numbers in them (None for images)."""
    kind = sources["train"].input_kind
    result: dict[str, np.ndarray | RaggedArray] = {}
    if kind == "image":
        for name, records in sources.items():
            label = f"folder-{name}-{fingerprint([], str(root.resolve()))[:8]}"
            result[name] = image_cache(label, [root / file for file in records.inputs], size)
        return result, None, None
    width = sources["train"].input_width or 0
    if width == 0:
        raise UserError(f"{sources['train'].path}: every input is empty")
    rows = [np.array(x, np.float64).reshape(-1, width) for x in sources["train"].inputs]
    low, high = np.concatenate(rows).min(0), np.concatenate(rows).max(0)
    scale = np.where(high > low, high - low, 1.0)
    for name, records in sources.items():
        arrays = [(np.array(x, np.float64).reshape(-1, width) - low) / scale for x in records.inputs]
        result[name] = np.concatenate(arrays).astype(np.float32) if kind == "vector" else RaggedArray.of(arrays, width)
    return result, tuple(low.tolist()), tuple(scale.tolist())
