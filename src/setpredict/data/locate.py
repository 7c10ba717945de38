"""Open any data set by its path: the content of the folder tells which kind it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from setpredict.core.errors import UserError
from setpredict.data import load
from setpredict.data.io.coco_files import json_files, looks_like_coco

if TYPE_CHECKING:
    from setpredict.data.task import SetTask


def open_path(
    path: str | os.PathLike,
    *,
    size: int = 128,
    seed: int = 0,
    target: Literal["state", "box"] = "state",
    boxes: Literal["paper", "exact"] = "paper",
    allow_outside: bool = False,
    without_train: bool = False,
) -> SetTask:
    """The task at a path: a folder with train.jsonl, a CLEVR folder (original or generated), a folder with MNIST's
    files, a COCO annotation file, or a folder with such files in annotations/.

    `size` is the side length of images in pixels, `seed` selects the validation samples, `target` and `boxes` are
    options of `clevr`, `allow_outside` accepts images outside the data set's folder, and `without_train` a folder that
    has val.jsonl or test.jsonl, but no train.jsonl.
    """
    path = Path(path).expanduser()
    images: dict[str, Any] = {"size": size, "seed": seed, "allow_outside": allow_outside}
    if not path.exists():
        raise UserError(f"{path} does not exist")
    if path.is_file():
        if path.suffix == ".json":
            return load("coco", folder=path, **images)
        hint = f": name its folder, {path.parent}" if path.suffix == ".jsonl" else ""
        raise UserError(f"{path} is a file, expected a folder or a COCO annotation file (.json){hint}")
    files = ("train", "val", "test") if without_train else ("train",)
    if any((path / f"{name}.jsonl").exists() for name in files):
        return load("folder", folder=path, without_train=without_train, **images)
    if any((path / "scenes").glob("CLEVR_*_scenes.json")):
        return load("clevr", folder=path, target=target, boxes=boxes, **images)
    if any(path.glob("train-images*ubyte*")):
        return load("mnist", folder=path, seed=seed)
    if any((path / "annotations").glob("*train*.json")) or any(path.glob("*train*.json")):
        return load("coco", folder=path, **images)
    raise UserError(
        f"{path} contains no data set: expected train.jsonl, scenes/CLEVR_train_scenes.json, "
        "train-images-idx3-ubyte, or *train*.json with COCO annotations in it or in annotations/" + _suggestion(path)
    )


def annotation_file(path: Path) -> Path | None:
    """The COCO annotations at a path: a .json file, a folder with *train*.json, or the only annotations in a folder.

    None if other data is there.
    """
    if path.is_file():
        return path if path.suffix == ".json" else None
    other = ("train.jsonl", "val.jsonl", "test.jsonl", "scenes")
    if not path.is_dir() or any((path / name).exists() for name in other):
        return None
    if any("train" in file.stem and looks_like_coco(file) for file in json_files(path)):
        return path
    files = _coco_files(path)
    return files[0] if len(files) == 1 else None


def _coco_files(folder: Path) -> list[Path]:
    """The JSON files in a folder, and in its folder annotations, that look like COCO annotations."""
    return [file for file in json_files(folder) if looks_like_coco(file)]


def _suggestion(folder: Path) -> str:
    files = _coco_files(folder)
    return f". It has the annotations {', '.join(map(str, files[:3]))}: name the file instead" if files else ""
