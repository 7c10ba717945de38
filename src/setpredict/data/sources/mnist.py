"""MNIST as sets: the bright pixels of a digit, as points to auto-encode (section 4.1 of the paper).

A pixel is in the set if it is strictly above the data set's mean; its coordinates are (row, column) / 27. The order is
shuffled in each epoch.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import no_type_check

import numpy as np
import torch

from setpredict.core.errors import UserError
from setpredict.core.jit import kernel
from setpredict.core.paths import cache_folder, data_folder, fingerprint
from setpredict.core.rng import GOLDEN, key, mix, start
from setpredict.data.batch import Batch
from setpredict.data.io.cache import cached
from setpredict.data.io.download import download
from setpredict.data.io.idx import read_idx
from setpredict.data.splits import train_val_split
from setpredict.data.task import SetTask
from setpredict.sets import Sets

MEAN = 0.1307 * 255
LARGEST = 342
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
FILES = {
    "train": ("train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "test": ("t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3"),
}


def mnist(
    folder: str | os.PathLike | None = None, *, seed: int = 0, val: float = 0.05, threshold: float = MEAN
) -> SetTask:
    """MNIST from its IDX files in `folder` (default `$SETPREDICT_DATA/mnist`), downloaded if missing.

    `val` is the fraction of the training digits that become the val split, selected by `seed`. `threshold` is in
    0..255.
    """
    if not 0 <= threshold < 255:
        raise UserError(f"threshold must be from 0 to below 255, got {threshold}")
    root = Path(folder).expanduser() if folder else data_folder() / "mnist"
    points = {name: _points(name, root, threshold) for name in FILES}
    largest = max(int(np.diff(offsets).max()) for _, offsets in points.values())
    N = max(largest, LARGEST) if threshold == MEAN else largest
    train, held_out = train_val_split(len(points["train"][1]) - 1, val, seed)

    def split(name: str, source: str, chosen: np.ndarray) -> DigitSets:
        return DigitSets(*points[source], chosen, N, seed, name)

    return SetTask(
        name="mnist",
        input_kind="set",
        input_size=2,
        max_size=N,
        features=2,
        variable=True,
        kind="points",
        feature_names=("row", "column"),
        train=split("train", "train", train),
        val=split("val", "train", held_out),
        test=split("test", "test", np.arange(len(points["test"][1]) - 1)),
        auto_encodes=True,
    )


def digit_points(images: np.ndarray, threshold: float = MEAN) -> tuple[np.ndarray, np.ndarray]:
    """The pixels above `threshold` of uint8 images (n, 28, 28): points (total, 2) uint8, and the offset of each set.

    >>> images = np.zeros((2, 28, 28), np.uint8)
    >>> images[1, 3, 5] = 34
    >>> points, offsets = digit_points(images)
    >>> points.tolist(), offsets.tolist()
    ([[3, 5]], [0, 0, 1])
    """
    image, row, column = np.nonzero(images > threshold)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(image, minlength=len(images)))])
    return np.stack([row, column], axis=1).astype(np.uint8), offsets


def _points(split: str, folder: Path, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """`digit_points` of a split, from the cache if its file is unchanged."""
    source = _file(split, folder)
    path = cache_folder() / "mnist" / f"{split}-{fingerprint([source], threshold)}.npz"

    def build(temporary: Path) -> None:
        images = read_idx(source)
        if images.ndim != 3 or images.shape[1:] != (28, 28) or len(images) == 0:
            raise UserError(f"{source} contains an array of shape {images.shape}, expected (n, 28, 28)")
        points, offsets = digit_points(images, threshold)
        with open(temporary, "wb") as file:
            np.savez(file, points=points, offsets=offsets)

    return cached(path, build, _read_points)


def _read_points(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with open(path, "rb") as file, np.load(file) as arrays:
        return arrays["points"], arrays["offsets"]


def _file(split: str, folder: Path) -> Path:
    name, md5 = FILES[split]
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    path = folder / f"{name}.gz"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        download([f"{mirror}{path.name}" for mirror in MIRRORS], path, md5)
    except OSError as error:
        raise UserError(f"{path} not found, and it cannot be downloaded to there: {error.strerror}") from None
    return path


@dataclass(frozen=True)
class DigitSets:
    """A split of MNIST: the digits with the indices `chosen`, in an order of points that depends on the epoch."""

    points: np.ndarray
    offsets: np.ndarray
    chosen: np.ndarray
    max_size: int
    seed: int
    split: str

    def __len__(self) -> int:
        return len(self.chosen)

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        indices = np.asarray(indices, dtype=np.int64)
        target = self.sets(indices, epoch)
        return Batch(target, target, torch.from_numpy(indices))

    def sets(self, indices: np.ndarray, epoch: int = 0) -> Sets:
        elements = np.zeros((len(indices), self.max_size, 2), np.float32)  # (B, N, 2)
        mask = np.zeros((len(indices), self.max_size), np.bool_)  # (B, N)
        item_key = np.uint64(key(self.seed, "mnist", self.split, epoch))
        _fill(self.points, self.offsets, self.chosen[indices], item_key, elements, mask)
        return Sets(torch.from_numpy(elements), torch.from_numpy(mask))


@kernel
@no_type_check
def _fill(points, offsets, items, item_key, elements, mask):
    """Shuffle each item's points by (key, item): the Fisher-Yates shuffle with splitmix64 as the generator."""
    order = np.empty(elements.shape[1], np.int64)
    for b in range(len(items)):
        begin = offsets[items[b]]
        size = offsets[items[b] + 1] - begin
        state = start(item_key, items[b])
        for i in range(size):
            order[i] = i
        for i in range(size - 1, 0, -1):
            state += GOLDEN
            j = np.int64(mix(state) % np.uint64(i + 1))
            order[i], order[j] = order[j], order[i]
        for i in range(size):
            point = points[begin + order[i]]
            elements[b, i, 0] = point[0] / 27
            elements[b, i, 1] = point[1] / 27
            mask[b, i] = True
