"""Random multisets to auto-encode: points uniform in the unit cube, with or without duplicates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from setpredict.core.rng import item_keys, key, uniform
from setpredict.data.task import Batch, SetTask
from setpredict.sets import Sets


def multisets(
    n: int = 8,
    dim: int = 2,
    duplicates: bool = False,
    variable: bool = False,
    seed: int = 0,
    *,
    min_size: int = 1,
    train: int = 32_000,
    val: int = 1_000,
    test: int = 1_000,
) -> SetTask:
    """Sets of n points of dimension `dim`; the input is the set itself.

    With `duplicates` the points are drawn with replacement from n // 2 places, so some always coincide. With
    `variable` the size is uniform in min_size..n. Training never ends: each epoch has fresh sets.

    >>> task = multisets(n=4, dim=3)
    >>> batch = next(iter(task.loader("train", 2)))
    >>> batch.target
    Sets(2 sets of up to 4 elements with 3 features, sizes 4 to 4)
    """
    if n < 1 or dim < 1:
        raise ValueError(f"n and dim must be at least 1, got n={n}, dim={dim}")
    if variable and not 0 <= min_size <= n:
        raise ValueError(f"min_size must be from 0 to n={n}, got {min_size}")
    least = min_size if variable else n

    def split(name: str, count: int) -> RandomMultisets:
        return RandomMultisets(count, n, dim, duplicates, least, seed, name)

    return SetTask(
        name="multisets",
        input_kind="set",
        input_size=dim,
        max_size=n,
        features=dim,
        variable=variable,
        kind="points",
        feature_names=("x", "y", "z")[:dim] if dim <= 3 else (),
        train=split("train", train),
        val=split("val", val),
        test=split("test", test),
        auto_encodes=True,
    )


@dataclass(frozen=True)
class RandomMultisets:
    count: int
    n: int
    dim: int
    duplicates: bool
    min_size: int
    seed: int
    split: str

    def __len__(self) -> int:
        return self.count

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        B, N, D = len(indices), self.n, self.dim
        numbers = uniform(item_keys(key(self.seed, "multisets", self.split, epoch), indices), N * D + N + 1)
        elements = numbers[:, : N * D].reshape(B, N, D)
        if self.duplicates:
            place = (numbers[:, N * D : N * D + N] * max(1, N // 2)).astype(np.int64)  # (B, N)
            elements = np.take_along_axis(elements, place[:, :, None], axis=1)
        size = self.min_size + (numbers[:, -1] * (N + 1 - self.min_size)).astype(np.int64)  # (B,)
        mask = np.arange(N) < size[:, None]  # (B, N)
        elements = (elements * mask[:, :, None]).astype(np.float32)
        target = Sets(torch.from_numpy(elements), torch.from_numpy(mask))
        return Batch(target, target, torch.from_numpy(np.asarray(indices, dtype=np.int64)))
