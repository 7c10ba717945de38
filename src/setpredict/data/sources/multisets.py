"""Random multisets to auto-encode: points uniform in the unit cube or normal, with or without duplicates."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from setpredict.core.errors import UserError
from setpredict.core.rng import normal as standard_normal
from setpredict.core.rng import uniform
from setpredict.data.splits import DrawnSplit
from setpredict.data.task import SetTask
from setpredict.sets import Sets

DISTRIBUTIONS = ("uniform", "normal")


def multisets(
    n: int = 8,
    dim: int = 2,
    duplicates: bool = False,
    variable: bool = False,
    seed: int = 0,
    *,
    distribution: str = "uniform",
    min_size: int = 1,
    train: int = 32_000,
    val: int = 1_000,
    test: int = 1_000,
) -> SetTask:
    """Sets of n points of dimension `dim`; the input is the set itself.

    Points are uniform in the unit cube or, with the distribution "normal", standard normal (section 4.2 of the iDSPN
    paper). With `duplicates` the points are drawn with replacement from n // 2 positions, so some always coincide. With
    `variable` the size is uniform in min_size..n. Each training epoch has new sets.

    >>> task = multisets(n=4, dim=3)
    >>> batch = next(iter(task.loader("train", 2)))
    >>> batch.target
    Sets(2 sets of up to 4 elements with 3 features, sizes 4 to 4)
    """
    if n < 1 or dim < 1:
        raise UserError(f"n and dim must be at least 1, got n={n}, dim={dim}")
    if distribution not in DISTRIBUTIONS:
        raise UserError(f"distribution must be {' or '.join(DISTRIBUTIONS)}, got {distribution!r}")
    if variable and not 0 <= min_size <= n:
        raise UserError(f"min_size must be from 0 to n={n}, got {min_size}")
    drawn = {"duplicates": duplicates, "min_size": min_size if variable else n, "normal": distribution == "normal"}
    draw = partial(draw_multisets, n=n, dim=dim, **drawn)
    return SetTask(
        name="multisets",
        input_kind="set",
        input_size=dim,
        max_size=n,
        features=dim,
        variable=variable,
        kind="points",
        feature_names=("x", "y", "z")[:dim] if dim <= 3 else (),
        train=DrawnSplit(train, (seed, "multisets", "train"), draw),
        val=DrawnSplit(val, (seed, "multisets", "val"), draw),
        test=DrawnSplit(test, (seed, "multisets", "test"), draw),
        auto_encodes=True,
    )


def draw_multisets(
    keys: np.ndarray, n: int, dim: int, duplicates: bool, min_size: int, normal: bool = False
) -> tuple[Sets, Sets]:
    """One multiset per key (B,), as input and as target."""
    B, N, D = len(keys), n, dim
    numbers = uniform(keys, (2 if normal else 1) * N * D + N + 1)  # normal numbers take two uniform ones each
    elements = (standard_normal(keys, N * D) if normal else numbers[:, : N * D]).reshape(B, N, D)
    if duplicates:
        position = (numbers[:, -N - 1 : -1] * max(1, N // 2)).astype(np.int64)  # (B, N)
        elements = np.take_along_axis(elements, position[:, :, None], axis=1)
    size = min_size + (numbers[:, -1] * (N + 1 - min_size)).astype(np.int64)  # (B,)
    mask = np.arange(N) < size[:, None]  # (B, N)
    elements = (elements * mask[:, :, None]).astype(np.float32)
    sets = Sets(torch.from_numpy(elements), torch.from_numpy(mask))
    return sets, sets
