"""CLEVR v1.0, from its own folders: an image goes in, the objects' states or boxes come out (section 4.2)."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from setpredict.data import clevr_boxes, clevr_state
from setpredict.data.clevr_boxes import exact_boxes, paper_boxes
from setpredict.data.clevr_scenes import SceneTable, read_scenes
from setpredict.data.clevr_state import encode_states
from setpredict.data.image_cache import image_cache, images_to_float
from setpredict.data.keyed import key
from setpredict.data.places import data_folder, fingerprint
from setpredict.data.task import Batch, SetTask
from setpredict.sets import Sets

MOST = 10


def clevr(
    folder: str | os.PathLike | None = None,
    target: Literal["state", "box"] = "state",
    boxes: Literal["paper", "exact"] = "paper",
    *,
    size: int = 128,
    seed: int = 0,
    val: float = 0.05,
    workers: int | None = None,
) -> SetTask:
    """CLEVR (or scenes generated in its layout) from `folder`, default `$SETPREDICT_DATA/CLEVR_v1.0`.

    Images are squashed to size × size and kept in a cache. `val` is the part of the training scenes that is set
    aside, chosen by `seed`; the test split is CLEVR's validation split. `boxes` are those of the paper's tables, a
    heuristic, or exact ones.
    """
    root = Path(folder).expanduser() if folder else data_folder() / "CLEVR_v1.0"
    if not root.is_dir():
        raise FileNotFoundError(f"no CLEVR in {root}: expected folders images and scenes there")
    if target not in ("state", "box"):
        raise ValueError(f"target must be state or box, got {target!r}")
    if boxes not in ("paper", "exact"):
        raise ValueError(f"boxes must be paper or exact, got {boxes!r}")
    if not 0 <= val < 1:
        raise ValueError(f"val must be a part of the training scenes, from 0 to below 1, got {val}")
    splits = {name: _read_split(root, name, target, boxes, size, workers) for name in ("train", "val")}
    most = max(MOST, *(int(np.diff(s.offsets).max(initial=0)) for s in splits.values()))
    train, test = (ClevrSplit(s, np.arange(len(s.offsets) - 1), most) for s in splits.values())
    order = np.random.default_rng(key("val", seed)).permutation(len(train))
    aside = round(val * len(order))
    box = target == "box"
    return SetTask(
        name=f"clevr-{target}",
        input_kind="image",
        input_size=size,
        max_size=most,
        features=test.source.targets.shape[1],
        variable=True,
        kind="boxes" if box else "states",
        train=ClevrSplit(train.source, np.sort(order[aside:]), most),
        val=ClevrSplit(train.source, np.sort(order[:aside]), most),
        test=test,
        feature_names=clevr_boxes.FEATURE_NAMES if box else clevr_state.FEATURE_NAMES,
        groups={} if box else clevr_state.GROUPS,
        categories={} if box else clevr_state.ATTRIBUTES,
        scale=None if box else clevr_state.SCALE,
    )


@dataclass(frozen=True, eq=False)
class ClevrSource:
    """All scenes of one of CLEVR's splits: images, and the objects' features as rows."""

    images: np.ndarray  # (S, 3, H, W) uint8, memory-mapped
    targets: np.ndarray  # (M, D) float32
    offsets: np.ndarray  # (S + 1,)
    table: SceneTable


@dataclass(frozen=True, eq=False)
class ClevrSplit:
    source: ClevrSource
    chosen: np.ndarray
    max_size: int

    def __len__(self) -> int:
        return len(self.chosen)

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        indices = np.asarray(indices, dtype=np.int64)
        scenes = self.chosen[indices]
        elements, mask = pad_rows(self.source.targets, self.source.offsets, scenes, self.max_size)
        return Batch(
            images_to_float(self.source.images[scenes]),
            Sets(torch.from_numpy(elements), torch.from_numpy(mask)),
            torch.from_numpy(indices),
        )


def pad_rows(rows: np.ndarray, offsets: np.ndarray, chosen: np.ndarray, N: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of each chosen set, padded with zeros: elements (B, N, D) and mask (B, N)."""
    begin = offsets[chosen]
    mask = np.arange(N) < (offsets[chosen + 1] - begin)[:, None]  # (B, N)
    elements = np.zeros((len(chosen), N, rows.shape[1]), np.float32)
    elements[mask] = rows[(begin[:, None] + np.arange(N))[mask]]
    return elements, mask


def _read_split(root: Path, split: str, target: str, boxes: str, size: int, workers: int | None) -> ClevrSource:
    table = read_scenes(root / "scenes" / f"CLEVR_{split}_scenes.json")
    folder = root / "images" / split
    there = set(os.listdir(folder)) if folder.is_dir() else set()
    have = np.array([name in there for name in table.image], dtype=bool)
    if not have.any():
        raise FileNotFoundError(f"none of the {len(table)} images of split {split} is in {folder}")
    if not have.all():
        missing = (~have).sum()
        warnings.warn(
            f"{missing} of {len(table)} scenes of split {split} are skipped: their image is not in {folder}",
            stacklevel=3,
        )
        table = table.select(np.flatnonzero(have))
    files = [folder / name for name in table.image]
    name = f"clevr-{split}-{fingerprint([], str(folder.resolve()))[:8]}"
    images = image_cache(name, files, size, workers)
    if target == "state":
        targets = encode_states(table.coords, table.attributes)
    else:
        targets = (paper_boxes(table) if boxes == "paper" else exact_boxes(table)).astype(np.float32)
    return ClevrSource(images, targets, table.offsets, table)
