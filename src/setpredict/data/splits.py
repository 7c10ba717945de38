"""Splits: samples that are stored (in memory or in an image cache), and samples that are drawn on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from setpredict.core.errors import UserError
from setpredict.core.rng import item_keys, key
from setpredict.data.batch import Batch
from setpredict.data.io.images import images_to_float
from setpredict.data.ragged import RaggedArray
from setpredict.sets import Sets


@dataclass(frozen=True, eq=False)
class StoredSplit:
    """The stored samples with the indices `chosen`."""

    inputs: np.ndarray | RaggedArray
    """Images (S, 3, H, W) uint8, vectors (S, V) float32, or sets."""
    targets: RaggedArray
    chosen: np.ndarray
    max_size: int
    max_input_size: int = 0
    """Sets as inputs: the size to which they are padded."""
    centers: RaggedArray | None = None
    """Images: center and apparent size (x, y, size) of every element, where known."""

    def __len__(self) -> int:
        return len(self.chosen)

    def joined(self, other: StoredSplit) -> StoredSplit:
        """The samples of both, which have the same store, in its order."""
        return replace(self, chosen=np.sort(np.concatenate([self.chosen, other.chosen])))

    def sets(self, indices: np.ndarray) -> Sets:
        """Only the targets, without loading the inputs."""
        return self.targets.padded(self.chosen[indices], self.max_size)

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        indices = np.asarray(indices, dtype=np.int64)
        rows = self.chosen[indices]
        if isinstance(self.inputs, RaggedArray):
            input: Tensor | Sets = self.inputs.padded(rows, self.max_input_size)
        elif self.inputs.ndim == 4:
            input = images_to_float(self.inputs[rows])
        else:
            input = torch.from_numpy(self.inputs[rows])
        centers = None if self.centers is None else self.centers.padded(rows, self.max_size).elements
        return Batch(input, self.sets(indices), torch.from_numpy(indices), centers)


@dataclass(frozen=True, eq=False)
class DrawnSplit:
    """`count` samples that are drawn on demand, each from its key; every epoch has new ones."""

    count: int
    key_parts: tuple[int | str, ...]
    """Identify this split: seed, data set, name of the split."""
    draw: Callable[[np.ndarray], tuple[Tensor | Sets, Sets]]
    """From keys (B,) uint64 to inputs and targets."""

    def __len__(self) -> int:
        return self.count

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        indices = np.asarray(indices, dtype=np.int64)
        input, target = self.draw(item_keys(key(*self.key_parts, epoch), indices))
        return Batch(input, target, torch.from_numpy(indices))


def train_val_split(count: int, part: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split the indices 0 … count - 1 at random into training indices and a fraction `part` for validation.

    >>> train, val = train_val_split(10, 0.2, seed=0)
    >>> len(train), len(val), sorted([*train.tolist(), *val.tolist()]) == list(range(10))
    (8, 2, True)
    """
    if not 0 <= part < 1:
        raise UserError(f"val must be a fraction of the training samples, from 0 to below 1, got {part}")
    order = np.random.default_rng(key("val", seed)).permutation(count)
    held_out = max(round(part * count), 1 if part > 0 and count > 1 else 0)  # at least one sample
    return np.sort(order[held_out:]), np.sort(order[:held_out])
