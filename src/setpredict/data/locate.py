"""Any data set by where it lies: what is in a folder says which it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

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
    """The task at a path: a folder with train.jsonl, a CLEVR folder (genuine or generated), a folder with MNIST's
    files, a COCO annotation file or a folder that holds them in annotations/.

    `size` is the side of images, `seed` chooses what is set aside, `target` and `boxes` are CLEVR's.
    """
    from setpredict.data import load

    path = Path(path).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.is_file():
        if path.suffix == ".json":
            return load("coco", folder=path, size=size, seed=seed)
        raise ValueError(f"{path} is a file, expected a folder or a COCO annotation file (.json)")
    if (path / "train.jsonl").exists():
        return load("folder", folder=path, size=size, seed=seed)
    if (path / "scenes" / "CLEVR_train_scenes.json").exists():
        return load("clevr", folder=path, target=target, boxes=boxes, size=size, seed=seed)
    if any(path.glob("train-images*ubyte*")):
        return load("mnist", folder=path, seed=seed)
    if any((path / "annotations").glob("*train*.json")):
        return load("coco", folder=path, size=size, seed=seed)
    raise ValueError(
        f"{path} holds no data set: expected train.jsonl, scenes/CLEVR_train_scenes.json, "
        "train-images-idx3-ubyte or annotations/*train*.json"
    )
