"""Open any data set by its path: the content of the folder tells which kind it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from setpredict.core.errors import UserError
from setpredict.data import load

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
) -> SetTask:
    """The task at a path: a folder with train.jsonl, a CLEVR folder (original or generated), a folder with MNIST's
    files, a COCO annotation file, or a folder with such files in annotations/.

    `size` is the side length of images in pixels, `seed` selects the validation samples, `target` and `boxes` are
    options of `clevr`, and `allow_outside` accepts images outside the data set's folder.
    """
    path = Path(path).expanduser()
    images: dict[str, Any] = {"size": size, "seed": seed, "allow_outside": allow_outside}
    if not path.exists():
        raise UserError(f"{path} does not exist")
    if path.is_file():
        if path.suffix == ".json":
            return load("coco", folder=path, **images)
        raise UserError(f"{path} is a file, expected a folder or a COCO annotation file (.json)")
    if (path / "train.jsonl").exists():
        return load("folder", folder=path, **images)
    if (path / "scenes" / "CLEVR_train_scenes.json").exists():
        return load("clevr", folder=path, target=target, boxes=boxes, **images)
    if any(path.glob("train-images*ubyte*")):
        return load("mnist", folder=path, seed=seed)
    if any((path / "annotations").glob("*train*.json")) or any(path.glob("*train*.json")):
        return load("coco", folder=path, **images)
    raise UserError(
        f"{path} contains no data set: expected train.jsonl, scenes/CLEVR_train_scenes.json, "
        "train-images-idx3-ubyte, or *train*.json with COCO annotations in it or in annotations/"
    )
