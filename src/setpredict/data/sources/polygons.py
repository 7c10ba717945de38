"""Regular polygons, the paper's introductory example: predict the corners from the angle.

A rotation by 2π/n maps a polygon of n corners to the same set, so the input is cos nθ, sin nθ and n as one-hot: equal
sets have equal inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from setpredict.core.rng import uniform
from setpredict.data.splits import DrawnSplit
from setpredict.data.task import SetTask
from setpredict.sets import Sets

FEWEST, MOST = 3, 8
RADIUS = 0.5
CENTER = 0.5


def polygons(seed: int = 0, *, train: int = 32_000, val: int = 1_000, test: int = 1_000) -> SetTask:
    """Polygons of 3 to 8 corners at any angle, in the unit square; each training epoch has new ones.

    >>> polygons()
    SetTask(polygons: vector of 8 → up to 8 polygons with 2 features; 32000 train, 1000 val, 1000 test)
    """
    return SetTask(
        name="polygons",
        input_kind="vector",
        input_size=2 + MOST - FEWEST + 1,
        max_size=MOST,
        features=2,
        variable=True,
        kind="polygons",
        feature_names=("x", "y"),
        train=DrawnSplit(train, (seed, "polygons", "train"), draw_polygons),
        val=DrawnSplit(val, (seed, "polygons", "val"), draw_polygons),
        test=DrawnSplit(test, (seed, "polygons", "test"), draw_polygons),
    )


def polygon(
    n: np.ndarray | Sequence[int] | int, theta: np.ndarray | Sequence[float] | float
) -> tuple[Float[Tensor, "B 8"], Sets]:
    """Input and target for given numbers of corners and angles (radians), broadcast together to (B,).

    >>> input, target = polygon(4, [0.0, 0.1])
    >>> target.to_list()[0].tolist()
    [[1.0, 0.5], [0.5, 1.0], [0.0, 0.5], [0.5, 0.0]]
    """
    n = np.atleast_1d(np.asarray(n, dtype=np.int64))
    theta = np.atleast_1d(np.asarray(theta, dtype=np.float64))
    n, theta = np.broadcast_arrays(n, theta)  # (B,)
    if n.ndim != 1:
        raise ValueError(f"n and theta must be numbers or vectors, got shape {n.shape}")
    if n.min() < FEWEST or n.max() > MOST:
        raise ValueError(f"a polygon must have {FEWEST} to {MOST} corners, got {n.min()} to {n.max()}")
    corner = np.arange(MOST)
    mask = corner < n[:, None]  # (B, N)
    angle = theta[:, None] + 2 * np.pi * corner / n[:, None]  # (B, N)
    elements = np.stack([np.cos(angle), np.sin(angle)], axis=-1) * RADIUS + CENTER  # (B, N, 2)
    one_hot = n[:, None] == np.arange(FEWEST, MOST + 1)  # (B, 6)
    input = np.concatenate([np.stack([np.cos(n * theta), np.sin(n * theta)], axis=1), one_hot], axis=1)  # (B, 8)
    elements = (elements * mask[:, :, None]).astype(np.float32)
    return torch.from_numpy(input.astype(np.float32)), Sets(torch.from_numpy(elements), torch.from_numpy(mask))


def draw_polygons(keys: np.ndarray) -> tuple[Float[Tensor, "B 8"], Sets]:
    """One polygon of a random number of corners and a random angle per key (B,): input and target."""
    numbers = uniform(keys, 2)
    n = FEWEST + (numbers[:, 0] * (MOST - FEWEST + 1)).astype(np.int64)
    return polygon(n, numbers[:, 1] * 2 * np.pi)
