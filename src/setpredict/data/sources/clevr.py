"""CLEVR v1.0 in its original layout: predict the states or boxes of the objects in an image (section 4.2)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from setpredict.core.errors import UserError
from setpredict.core.paths import data_folder, fingerprint
from setpredict.data.clevr.scene_files import read_scenes
from setpredict.data.clevr.targets import Boxes, ObjectTarget, Target, object_centers
from setpredict.data.io.images import available_images, image_cache
from setpredict.data.ragged import RaggedArray
from setpredict.data.splits import StoredSplit, train_val_split
from setpredict.data.task import SetTask

MAX_OBJECTS = 10


def clevr(
    folder: str | os.PathLike | None = None,
    target: Target = "state",
    boxes: Boxes = "paper",
    *,
    size: int = 128,
    seed: int = 0,
    val: float = 0.05,
    max_objects: int = MAX_OBJECTS,
    workers: int | None = None,
    allow_outside: bool = False,
) -> SetTask:
    """CLEVR (or scenes generated in its layout) from `folder`, default `$SETPREDICT_DATA/CLEVR_v1.0`.

    Images are resized to size × size and cached. `val` is the fraction of the training scenes that become the val
    split, selected by `seed`; the test split is CLEVR's validation split. Without the latter, the test split is the val
    split; without CLEVR's training split, train and val are empty. `boxes` are those of the paper's tables (a
    heuristic) or exact ones. Sets have capacity for `max_objects` objects, or for more if a scene has more. Images
    outside their folder, by ../, an absolute path or a symbolic link, are an error without `allow_outside`.
    """
    root = Path(folder).expanduser() if folder else data_folder() / "CLEVR_v1.0"
    if not root.is_dir():
        raise UserError(f"CLEVR not found in {root}: expected a folder with the folders images and scenes")
    objects = ObjectTarget(target, boxes)
    images: dict[str, Any] = {"size": size, "workers": workers, "allow_outside": allow_outside}
    names = [name for name in ("train", "val") if scene_file(root, name).exists()] or ["train"]
    sources = {name: _read_split(root, name, objects, **images) for name in names}
    N = max(max_objects, *(int(s.targets.sizes.max(initial=0)) for s in sources.values()))
    first, last = sources[names[0]], sources[names[-1]]
    chosen, held_out = train_val_split(len(first.targets) if "train" in sources else 0, val, seed)
    validation = first.split(held_out, N)
    return SetTask(
        name=f"clevr-{target}",
        input_kind="image",
        input_size=size,
        max_size=N,
        variable=True,
        train=first.split(chosen, N),
        val=validation,
        test=last.split(np.arange(len(last.targets)), N) if "val" in sources else validation,
        has_centers=True,
        **objects.description,
    )


def scene_file(root: Path, split: str) -> Path:
    """The scenes of one of CLEVR's splits."""
    return root / "scenes" / f"CLEVR_{split}_scenes.json"


@dataclass(frozen=True, eq=False)
class _Source:
    """All scenes of one of CLEVR's splits."""

    images: np.ndarray  # (S, 3, H, W) uint8, memory-mapped
    targets: RaggedArray
    centers: RaggedArray

    def split(self, chosen: np.ndarray, N: int) -> StoredSplit:
        return StoredSplit(self.images, self.targets, chosen, N, centers=self.centers)


def _read_split(
    root: Path, split: str, target: ObjectTarget, *, size: int, workers: int | None, allow_outside: bool
) -> _Source:
    path = scene_file(root, split)
    table = read_scenes(path)
    if len(table) == 0 and split == "train":
        raise UserError(f"{path} has no scenes")
    if len(table) == 0:
        images = np.zeros((0, 3, size, size), np.uint8)
    else:
        folder = root / "images" / split
        found = available_images(folder, table.image, f"scenes of split {split}", allow_outside)
        if len(found) < len(table):
            table = table.select(found)
        files = [folder / name for name in table.image]
        images = image_cache(f"clevr-{split}-{fingerprint([], str(folder.resolve()))[:8]}", files, size, workers)
    return _Source(images, target.encode(table), object_centers(table))
