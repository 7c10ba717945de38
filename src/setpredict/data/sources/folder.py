"""Your own data: a folder with train.jsonl and val.jsonl, with one line {"input": …, "set": [[…], …]} per sample."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from setpredict.config import ElementKind
from setpredict.core.errors import UserError
from setpredict.core.files import read_json
from setpredict.core.paths import fingerprint
from setpredict.data.assemble import KINDS, Inputs, are_fractions, assemble, check_kind, infer_kind, scaled_inputs
from setpredict.data.io.collected import Collected
from setpredict.data.io.images import image_cache, image_size
from setpredict.data.io.inside import find_outside
from setpredict.data.io.jsonl import Records, read_jsonl
from setpredict.data.ragged import RaggedArray
from setpredict.data.task import SetTask


def folder(
    folder: str | os.PathLike,
    *,
    size: int = 128,
    seed: int = 0,
    val: float = 0.1,
    allow_outside: bool = False,
    without_train: bool = False,
) -> SetTask:
    """The task in a folder of jsonl files; sizes, dimensions and ranges are inferred and validated.

    An input is an image file (relative to the folder), a list of numbers, or a list of such lists (a set). Elements
    consist of numbers and category names. Without val.jsonl, the fraction `val` of the training samples, selected by
    `seed`, becomes the val split; without test.jsonl, the test split is the val split. An optional task.json has the
    form {"features": [names], "kind": "points", "polygons", "boxes", "states" or "vectors"}. Images are resized to
    size × size; boxes (left, top, right, bottom) and points in them are in pixels or fractions of the image. An image
    outside the folder, by ../, an absolute path or a symbolic link, is an error without `allow_outside`.
    With `without_train`, for evaluation only, the folder may have only val.jsonl or test.jsonl.
    """
    root = Path(folder).expanduser()
    names = [name for name in ("train", "val", "test") if (root / f"{name}.jsonl").is_file()]
    if not names or (names[0] != "train" and not without_train):
        raise UserError(f"{root / 'train.jsonl'} not found")
    settings = _read_settings(root)
    train = read_jsonl(root / f"{names[0]}.jsonl")  # the file that says what features there are
    others = {name: read_jsonl(root / f"{name}.jsonl", like=train) for name in names[1:]}
    if train.input_kind is None:
        raise UserError(f"{train.path}: every input is empty")
    kind = settings.kind or infer_kind(train)
    if train.columns is not None:
        check_kind(root / "task.json", kind, train.columns)
    sources = {"train": train, **others}
    _check_images(root, sources, allow_outside)
    inputs, offset, scale = _load_inputs(root, sources, size)
    return assemble(
        root.resolve().name,
        sources,
        Inputs(inputs, size if train.input_kind == "image" else train.input_width or 0, offset, scale),
        kind,
        settings.features,
        _extent(root, sources, kind),
        val,
        seed,
        trains=names[0] != "val",
    )


@dataclass(frozen=True)
class _Settings:
    features: list[str] | None = None
    kind: ElementKind | None = None


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


def _check_images(root: Path, sources: dict[str, Records], allow_outside: bool) -> None:
    found = Collected()
    for records in sources.values():
        if records.input_kind == "image":
            for line, file in zip(records.lines, records.inputs):
                with found.catching():
                    if not os.path.isfile(root / file):  # also where the name is too long for one
                        raise records.error(line, f"image {file:.200} not found in {root}")
            found.raise_all()
            if not allow_outside and (outside := find_outside(root, records.inputs)):
                raise records.error(records.lines[outside[0]], outside[1])


def _extent(root: Path, sources: dict[str, Records], kind: ElementKind) -> list[float] | None:
    """For boxes and points in images: the image size in the unit of the coordinates, to make them fractions of it.

    Coordinates up to 1 are fractions already. Otherwise they are pixels; since all images are resized to one size,
    predictions can be converted back to pixels only if all images have the same size.
    """
    train = sources["train"]
    columns = [*(train.columns or []), True]
    count = min({"boxes": 4, "points": 2}.get(kind, 0), columns.index(True))  # points may have only one number
    if train.input_kind != "image" or count == 0:
        return None
    if are_fractions(sources, count):
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
    return scaled_inputs(sources)
