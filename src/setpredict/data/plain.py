"""Splits as they are stored: every sample once, in order and without augmentation, or only the target sets."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from setpredict.core.rng import key
from setpredict.data.batch import AugmentedSplit, Split, Subset
from setpredict.data.loader import Loader
from setpredict.sets import Sets


@runtime_checkable
class SetSource(Protocol):
    """A split that returns its sets without loading its inputs."""

    def sets(self, indices: np.ndarray) -> Sets: ...


def unaugmented(split: Split) -> Split:
    """The split without augmentation."""
    return unaugmented(split.split) if isinstance(split, AugmentedSplit) else split


def in_order(split: Split, batch_size: int, *, workers: int = 0, rank: int = 0, world_size: int = 1) -> Loader:
    """Every sample exactly once, in order; the samples of a training split too."""
    ranks = {"rank": rank, "world_size": world_size}
    plain = unaugmented(split)
    return Loader(plain, batch_size, key=(), epoch=0, start=0, shuffle=False, only_full=False, workers=workers, **ranks)


def target_sets(split: Split, indices: np.ndarray) -> Sets:
    """The targets of these samples, without loading their inputs where the split can do that."""
    plain = unaugmented(split)
    if isinstance(plain, Subset):
        return target_sets(plain.split, indices)
    return plain.sets(indices) if isinstance(plain, SetSource) else plain.batch(indices, 0).target


def some_target_sets(split: Split, count: int, seed: int = 0) -> Sets:
    """The targets of up to `count` samples of a split, chosen at random."""
    order = np.random.default_rng(key("some", seed)).permutation(len(split))[:count]
    return target_sets(split, np.sort(order))
