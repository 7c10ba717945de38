"""Open any data set by its path: the content of the folder tells which kind it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

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
) -> SetTask:
    """The task at a path: a folder with train.jsonl, a CLEVR folder (original or generated), a folder with MNIST's
    files, a COCO annotation file, or a folder with such files in annotations/.

    `size` is the side length of images in pixels, `seed` selects the validation samples, and `target` and `boxes` are
    options of `clevr`.
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise UserError(f"{path} does not exist")
    if path.is_file():
        if path.suffix == ".json":
            return load("coco", folder=path, size=size, seed=seed)
        raise UserError(f"{path} is a file, expected a folder or a COCO annotation file (.json)")
    if (path / "train.jsonl").exists():
        return load("folder", folder=path, size=size, seed=seed)
    if (path / "scenes" / "CLEVR_train_scenes.json").exists():
        return load("clevr", folder=path, target=target, boxes=boxes, size=size, seed=seed)
    if any(path.glob("train-images*ubyte*")):
        return load("mnist", folder=path, seed=seed)
    if any((path / "annotations").glob("*train*.json")):
        return load("coco", folder=path, size=size, seed=seed)
    raise UserError(
        f"{path} contains no data set: expected train.jsonl, scenes/CLEVR_train_scenes.json, "
        "train-images-idx3-ubyte or annotations/*train*.json"
    )
