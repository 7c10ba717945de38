"""StoredSplit: inputs and sets that are all there already, be it in memory or in an image cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from setpredict.data.io.images import images_to_float
from setpredict.core.rng import key
from setpredict.data.ragged import RaggedArray
from setpredict.data.task import Batch
from setpredict.sets import Sets


@dataclass(frozen=True, eq=False)
class StoredSplit:
    """Some (`chosen`) of the stored samples, as a split."""

    inputs: np.ndarray | RaggedArray
    """Images (S, 3, H, W) uint8, vectors (S, V) float32 or sets."""
    targets: RaggedArray
    chosen: np.ndarray
    max_size: int
    max_input_size: int = 0
    """For sets as inputs: the size they are padded to."""

    def __len__(self) -> int:
        return len(self.chosen)

    def sets(self, indices: np.ndarray) -> Sets:
        """The targets alone, without loading inputs."""
        return self.targets.padded(self.chosen[indices], self.max_size)

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        indices = np.asarray(indices, dtype=np.int64)
        which = self.chosen[indices]
        if isinstance(self.inputs, RaggedArray):
            input: Tensor | Sets = self.inputs.padded(which, self.max_input_size)
        elif self.inputs.ndim == 4:
            input = images_to_float(self.inputs[which])
        else:
            input = torch.from_numpy(self.inputs[which])
        return Batch(input, self.sets(indices), torch.from_numpy(indices))


def train_val_split(count: int, part: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The indices 0 … count - 1 in two: those to train on, and a seeded part of them to choose models on.

    >>> train, val = train_val_split(10, 0.2, seed=0)
    >>> len(train), len(val), sorted([*train.tolist(), *val.tolist()]) == list(range(10))
    (8, 2, True)
    """
    if not 0 <= part < 1:
        raise ValueError(f"val must be a part of the training samples, from 0 to below 1, got {part}")
    order = np.random.default_rng(key("val", seed)).permutation(count)
    aside = max(round(part * count), 1 if part > 0 and count > 1 else 0)  # a small data set has a sample to spare too
    return np.sort(order[aside:]), np.sort(order[:aside])
