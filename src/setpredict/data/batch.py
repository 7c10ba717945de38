"""Batch: some samples of a data set; Split: what batches are loaded from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from setpredict.core import rng
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

    @classmethod
    def cat(cls, batches: Sequence[Batch], index: Tensor) -> Batch:
        """Several batches as one, with new indices."""
        inputs, centers = [b.input for b in batches], [b.centers for b in batches if b.centers is not None]
        sets = [x for x in inputs if isinstance(x, Sets)]
        input = _joined(sets) if sets else torch.cat([x for x in inputs if isinstance(x, Tensor)])
        places = torch.cat(centers) if len(centers) == len(batches) else None
        return cls(input, _joined([b.target for b in batches]), index, places)


def _joined(sets: Sequence[Sets]) -> Sets:
    return Sets(torch.cat([s.elements for s in sets]), torch.cat([s.mask for s in sets]))


@runtime_checkable
class Split(Protocol):
    """A map-style split. `batch` is pure: the randomness of an item is a function of (seed, split, epoch, index)."""

    def __len__(self) -> int: ...

    def batch(self, indices: np.ndarray, epoch: int) -> Batch: ...


@dataclass(frozen=True)
class Joined:
    """Several splits one after the other."""

    splits: tuple[Split, ...]

    def __len__(self) -> int:
        return sum(map(len, self.splits))

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        indices = np.asarray(indices, dtype=np.int64)
        starts = np.cumsum([0, *map(len, self.splits)])
        where = np.searchsorted(starts, indices, side="right") - 1  # the split of each sample
        runs = np.flatnonzero(np.diff(where, prepend=-1, append=-1))  # consecutive samples of one split are one batch
        parts = [self.splits[where[a]].batch(indices[a:b] - starts[where[a]], epoch) for a, b in pairwise(runs)]
        return Batch.cat(parts, torch.from_numpy(indices))


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


def whole(split: Split) -> Split:
    """The split that a subset is of; else the split itself."""
    return whole(split.split) if isinstance(split, Subset) else split


@dataclass(frozen=True, eq=False)
class AugmentedSplit:
    """A training split whose samples are changed at random, differently in every epoch.

    A sample's numbers are a function of its key, epoch and index, so that a resumed training sees the same samples.
    """

    split: Split
    change: Callable[[Batch, Tensor], Batch]
    """From samples and their random numbers (B, R), uniform in [0, 1), to new samples."""
    numbers: int
    """R, how many random numbers a sample needs."""
    key_parts: tuple[int | str, ...]
    """Identify the numbers: seed and kind of change."""

    def __len__(self) -> int:
        return len(self.split)

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        keys = rng.item_keys(rng.key(*self.key_parts, epoch), np.asarray(indices, dtype=np.int64))
        numbers = torch.from_numpy(rng.uniform(keys, self.numbers)).float()  # (B, R)
        return self.change(self.split.batch(indices, epoch), numbers)
