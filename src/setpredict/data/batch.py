"""Batch: some samples of a data set; Split: what batches are loaded from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from setpredict.core.errors import UserError
from setpredict.sets import Sets


@dataclass(eq=False)
class Batch:
    """B samples: inputs, target sets, and each sample's index in its split."""

    input: Tensor | Sets
    target: Sets
    index: Int[Tensor, " B"]
    centers: Float[Tensor, "B N 3"] | None = None
    """Images: x and y of every element's center and how large it looks, as fractions of the image, where known."""

    def to(self, device: str | torch.device) -> Batch:
        centers = None if self.centers is None else self.centers.to(device)
        return Batch(self.input.to(device), self.target.to(device), self.index.to(device), centers)

    def __len__(self) -> int:
        return len(self.target)


@runtime_checkable
class Split(Protocol):
    """A map-style split. `batch` is pure: the randomness of an item is a function of (seed, split, epoch, index)."""

    def __len__(self) -> int: ...

    def batch(self, indices: np.ndarray, epoch: int) -> Batch: ...


@dataclass(frozen=True)
class Subset:
    """The first `count` samples of a split."""

    split: Split
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.count <= len(self.split):
            raise UserError(f"a subset of this split must have 0 to {len(self.split)} samples, got {self.count}")

    def __len__(self) -> int:
        return self.count

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        return self.split.batch(indices, epoch)
