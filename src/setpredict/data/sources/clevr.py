"""CLEVR v1.0, from its own folders: an image goes in, the objects' states or boxes come out (section 4.2)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from setpredict.data import clevr_boxes, clevr_state
from setpredict.data.clevr.boxes import exact_boxes, paper_boxes
from setpredict.data.clevr.scene_files import read_scenes
from setpredict.data.clevr.states import encode_states
from setpredict.data.io.images import image_cache, images_there
from setpredict.core.paths import data_folder, fingerprint
from setpredict.data.ragged import RaggedArray
from setpredict.data.splits import StoredSplit, train_val_split
from setpredict.data.task import SetTask

MOST = 10


def clevr(
    folder: str | os.PathLike | None = None,
    target: Literal["state", "box"] = "state",
    boxes: Literal["paper", "exact"] = "paper",
    *,
    size: int = 128,
    seed: int = 0,
    val: float = 0.05,
    most: int = MOST,
    workers: int | None = None,
) -> SetTask:
    """CLEVR (or scenes generated in its layout) from `folder`, default `$SETPREDICT_DATA/CLEVR_v1.0`.

    Images are squashed to size × size and kept in a cache. `val` is the part of the training scenes that is set
    aside, chosen by `seed`; the test split is CLEVR's validation split. `boxes` are those of the paper's tables, a
    heuristic, or exact ones. Sets have room for `most` objects, and for more if there are any.
    """
    root = Path(folder).expanduser() if folder else data_folder() / "CLEVR_v1.0"
    if not root.is_dir():
        raise FileNotFoundError(f"no CLEVR in {root}: expected folders images and scenes there")
    if target not in ("state", "box"):
        raise ValueError(f"target must be state or box, got {target!r}")
    if boxes not in ("paper", "exact"):
        raise ValueError(f"boxes must be paper or exact, got {boxes!r}")
    train = _read_split(root, "train", target, boxes, size, workers)
    test = _read_split(root, "val", target, boxes, size, workers)
    most = max(most, int(train.targets.sizes.max()), int(test.targets.sizes.max(initial=0)))
    chosen, aside = train_val_split(len(train.targets), val, seed)
    box = target == "box"
    return SetTask(
        name=f"clevr-{target}",
        input_kind="image",
        input_size=size,
        max_size=most,
        features=test.targets.values.shape[1],
        variable=True,
        kind="boxes" if box else "states",
        train=StoredSplit(train.images, train.targets, chosen, most),
        val=StoredSplit(train.images, train.targets, aside, most),
        test=StoredSplit(test.images, test.targets, np.arange(len(test.targets)), most),
        feature_names=clevr_boxes.FEATURE_NAMES if box else clevr_state.FEATURE_NAMES,
        groups={} if box else clevr_state.GROUPS,
        categories={} if box else clevr_state.ATTRIBUTES,
        spoken=() if box else clevr_state.SPOKEN,
        scale=None if box else clevr_state.SCALE,
    )


@dataclass(frozen=True, eq=False)
class _Source:
    """All scenes of one of CLEVR's splits."""

    images: np.ndarray  # (S, 3, H, W) uint8, memory-mapped
    targets: RaggedArray


def _read_split(root: Path, split: str, target: str, boxes: str, size: int, workers: int | None) -> _Source:
    path = root / "scenes" / f"CLEVR_{split}_scenes.json"
    table = read_scenes(path)
    if len(table) == 0 and split == "train":
        raise ValueError(f"{path} has no scenes")
    images = np.zeros((0, 3, size, size), np.uint8)
    if len(table):
        folder = root / "images" / split
        have = images_there(folder, table.image, f"scenes of split {split}")
        if len(have) < len(table):
            table = table.select(have)
        files = [folder / name for name in table.image]
        images = image_cache(f"clevr-{split}-{fingerprint([], str(folder.resolve()))[:8]}", files, size, workers)
    if target == "state":
        targets = encode_states(table.coords, table.attributes)
    else:
        targets = (paper_boxes(table) if boxes == "paper" else exact_boxes(table)).astype(np.float32)
    return _Source(images, RaggedArray(targets, table.offsets))
