"""COCO annotation files: predict the boxes in an image, with their categories as one-hot."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from setpredict.core.errors import UserError
from setpredict.core.files import read_json
from setpredict.core.paths import fingerprint
from setpredict.data.features import EDGE, SIDES
from setpredict.data.io.coco_files import annotation_files
from setpredict.data.io.collected import Collected
from setpredict.data.io.images import available_images, image_cache
from setpredict.data.io.json_text import is_number, short
from setpredict.data.ragged import RaggedArray, place_centers
from setpredict.data.splits import StoredSplit, train_val_split
from setpredict.data.task import SetTask

Id = int | str
MANY_BEYOND = 0.5
"""A warning says if more than this part of the boxes reaches further, as most do that are left, top, right, bottom."""


def coco(
    folder: str | os.PathLike,
    test: str | os.PathLike | None = None,
    *,
    images: str | os.PathLike | None = None,
    test_images: str | os.PathLike | None = None,
    size: int = 128,
    max_size: int | None = None,
    seed: int = 0,
    val: float = 0.05,
    allow_outside: bool = False,
    categories: Sequence[str] | None = None,
) -> SetTask:
    """Boxes from COCO annotation files: (left, top, right, bottom) as fractions of the image, then the category.

    `folder` has the layout of COCO (annotations/instances_train2017.json and images in train2017; the file with val in
    its name is the test split), or it is the training annotation file, with `test` another one. The fraction `val` of
    the training images, selected by `seed`, becomes the val split; without a test file it is the test split, too.
    `images` and `test_images` are folders of images that are neither in COCO's layout nor next to the annotation
    file. Crowds are left out, images without boxes are kept. With `max_size`, images with more boxes are skipped.
    Images outside their folder, by ../, an absolute path or a symbolic link, are an error without `allow_outside`.
    `categories` are the names of a model's categories, in its order: the file may have fewer of them.
    """
    train, neighbor = annotation_files(Path(folder).expanduser())
    test = Path(test).expanduser() if test is not None else neighbor
    sources = {"train": _read(train, images, None, max_size, allow_outside, categories)}
    if test is not None:
        known = sources["train"].categories if categories is None else None
        sources["test"] = _read(test, test_images or images, known, max_size, allow_outside, categories)
    names = tuple(dict.fromkeys(categories or sources["train"].categories.values()))
    one_hot = len(names) > 1
    stored = {n: (_images(f"{n}-{max_size}", s, size), s.targets(one_hot)) for n, s in sources.items()}
    N = max(1, *(int(targets.sizes.max()) for _, targets in stored.values()))
    chosen, held_out = train_val_split(len(stored["train"][1]), val, seed)

    def split(name: str, chosen: np.ndarray) -> StoredSplit:
        pictures, targets = stored[name]
        return StoredSplit(pictures, targets, chosen, N, centers=place_centers(targets, "boxes"))

    validation = split("train", held_out)
    return SetTask(
        name=train.stem if train.stem != "train" else train.absolute().parent.name,
        input_kind="image",
        input_size=size,
        max_size=N,
        features=4 + one_hot * len(names),
        variable=True,
        kind="boxes",
        train=split("train", chosen),
        val=validation,
        test=split("test", np.arange(len(stored["test"][1]))) if test else validation,
        has_centers=True,
        divided=len(stored["train"][1]),
        feature_names=SIDES + (tuple(f"category {n}" for n in names) if one_hot else ()),
        groups={"category": (4, 4 + len(names))} if one_hot else {},
        categories={"category": names} if one_hot else {},
    )


def read_ids(path: Path) -> tuple[dict[str, Id], dict[Id, str]]:
    """The ids of the images of an annotation file by file name, and the names of its categories by id."""
    content = _load(path)
    images = {
        str(_field(image, "file_name", path, "images", i)): _id(image, "id", path, "images", i)
        for i, image in enumerate(content["images"])
    }
    return images, _category_names(content, path)


def _category_names(content: dict[str, Any], path: Path) -> dict[Id, str]:
    names: dict[Id, str] = {}
    for i, category in enumerate(content["categories"]):
        number, name = _id(category, "id", path, "categories", i), str(_field(category, "name", path, "categories", i))
        if number in names:
            raise UserError(f"{path}, categories {i}: {short(names[number])} has the same id, {short(number)}")
        names[number] = name
    return names


@dataclass(eq=False)
class _Annotations:
    path: Path
    folder: Path
    files: list[str]
    boxes: list[list[tuple[float, ...]]]
    """For each image: left, top, right, bottom as fractions of it (also beyond it), and the index of the category."""
    categories: dict[Id, str]
    width: int
    """The number of categories of the features."""

    def targets(self, one_hot: bool) -> RaggedArray:
        eye = np.eye(self.width, dtype=np.float32)
        sets = []
        for boxes in self.boxes:
            array = np.array(boxes, np.float32).reshape(-1, 5)
            array[:, :4] = array[:, :4].clip(0, 1)
            sets.append(
                np.concatenate([array[:, :4], eye[array[:, 4].astype(int)]], axis=1) if one_hot else array[:, :4]
            )
        return RaggedArray.of(sets, 4 + one_hot * self.width)


def _read(
    path: Path,
    images: str | os.PathLike | None,
    categories: dict[Id, str] | None,
    max_size: int | None,
    allow_outside: bool,
    names: Sequence[str] | None = None,
) -> _Annotations:
    content = _load(path)
    known = _category_names(content, path)
    if categories is not None and known != categories:
        raise UserError(f"{path}: its categories differ from those of the training file")
    known = categories or known  # the same ones, in the order of the training file
    if not known:
        raise UserError(f"{path} has no categories")
    order = list(dict.fromkeys(names or known.values()))  # two ids may share a name, as some tools write them
    frames = {}
    for i, image in enumerate(content["images"]):
        number, name = _id(image, "id", path, "images", i), _field(image, "file_name", path, "images", i)
        if not isinstance(name, str):
            raise UserError(f"{path}, images {i}: file_name must be text, got {short(name)}")
        extent = [_field(image, key, path, "images", i) for key in ("width", "height")]
        if not all(is_number(v) and v > 0 for v in extent):
            raise UserError(f"{path}, images {i}: width and height must be positive, got {short(extent)}")
        if number in frames:
            raise UserError(f"{path}, images {i}: {short(frames[number][0])} has the same id, {short(number)}")
        frames[number] = (name, *extent, [])
    found = Collected()
    for i, annotation in enumerate(content["annotations"]):
        with found.catching():
            _add_box(frames, known, order, annotation, path, i)
    found.raise_all()
    _check_units(path, frames)
    frames = _with_few_boxes(path, list(frames.values()), max_size)
    folder = _image_folder(path, images)
    there = available_images(folder, [f[0] for f in frames], f"images of {path.name}", allow_outside)
    return _Annotations(path, folder, [frames[i][0] for i in there], [frames[i][3] for i in there], known, len(order))


def _add_box(frames: dict, known: dict[Id, str], order: Sequence[str], annotation: Any, path: Path, i: int) -> None:
    """Add annotation i to the boxes of its image, with the position of its category in `order`; crowds are left out."""
    if isinstance(annotation, dict) and annotation.get("iscrowd"):
        return
    number = _id(annotation, "image_id", path, "annotations", i)
    category = _id(annotation, "category_id", path, "annotations", i)
    box = _field(annotation, "bbox", path, "annotations", i)
    if number not in frames:
        raise UserError(f"{path}, annotations {i}: image_id {short(number)} is not the id of an image")
    if category not in known:
        raise UserError(f"{path}, annotations {i}: category_id {short(category)} is not the id of a category")
    if known[category] not in order:
        raise UserError(f"{path} has boxes of {known[category]!r}, but the model knows {', '.join(order)}")
    four_numbers = isinstance(box, list) and len(box) == 4 and all(is_number(v) for v in box)
    if not four_numbers or box[2] < 0 or box[3] < 0:
        raise UserError(f"{path}, annotations {i}: bbox must be [x, y, width, height], got {short(box)}")
    _, width, height, boxes = frames[number]
    x, y, w, h = box
    boxes.append((x / width, y / height, (x + w) / width, (y + h) / height, float(order.index(known[category]))))


def _check_units(path: Path, frames: dict) -> None:
    """Warn of boxes that cannot be x, y, width, height in pixels."""
    ends = np.array(
        [
            (right, bottom, right * width, bottom * height)
            for _, width, height, boxes in frames.values()
            for _, _, right, bottom, _ in boxes
        ]
    ).reshape(-1, 4)
    beyond = int((ends[:, :2] > 1 + EDGE).any(axis=1).sum())
    if beyond > MANY_BEYOND * len(ends):
        wrong = f"{beyond:,} of {len(ends):,} boxes reach beyond their image"
    elif len(ends) and ends[:, 2:].max() <= 1:
        wrong = "all boxes are in the first pixel of their image"
    else:
        return
    warnings.warn(f"{path}: {wrong}. A bbox is x, y, width, height (not right, bottom) in pixels", stacklevel=4)


def _with_few_boxes(path: Path, frames: list, max_size: int | None) -> list:
    """Those images that have at most `max_size` boxes."""
    if not frames:
        raise UserError(f"{path} has no images")
    if max_size is not None:
        fit = [f for f in frames if len(f[3]) <= max_size]
        if not fit:
            raise UserError(f"{path}: every image has more than {max_size} boxes")
        if len(fit) < len(frames):
            warnings.warn(
                f"skipped {len(frames) - len(fit)} of {len(frames)} images of {path}: more than {max_size} boxes",
                stacklevel=4,
            )
        frames = fit
    return frames


def _image_folder(path: Path, images: str | os.PathLike | None) -> Path:
    if images is not None:
        return Path(images)
    root = path.parent.parent if path.parent.name == "annotations" else path.parent
    usual = root / path.stem.removeprefix("instances_")
    if usual.is_dir():
        return usual
    return path.parent / "images" if (path.parent / "images").is_dir() else path.parent


def _images(name: str, source: _Annotations, size: int) -> np.ndarray:
    label = f"coco-{name}-{fingerprint([], str(source.path.resolve()), str(source.folder.resolve()))[:8]}"
    return image_cache(label, [source.folder / f for f in source.files], size)


def _load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"annotation file {path} not found")
    content = read_json(path, most=None)
    for name in ("images", "annotations", "categories"):
        if not isinstance(content, dict) or not isinstance(content.get(name), list):
            raise UserError(f"{path} has no list {name!r}: not a COCO annotation file")
    return content


def _field(record: Any, name: str, path: Path, where: str, index: int) -> Any:
    if not isinstance(record, dict) or name not in record:
        raise UserError(f"{path}, {where} {index}: field {name!r} is missing")
    return record[name]


def _id(record: Any, name: str, path: Path, where: str, index: int) -> Id:
    value = _field(record, name, path, where, index)
    if isinstance(value, float) and value.is_integer():  # as some tools write them
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise UserError(f"{path}, {where} {index}: {name} must be an integer or text, got {short(value)}")
    return value
