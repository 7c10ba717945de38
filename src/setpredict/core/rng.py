"""Counter-based random numbers: an item's numbers are a function of its key alone.

They do not depend on its batch, its worker or earlier draws. A `numpy.random.SeedSequence` per item has the same
property but takes 10 µs per item; here the 64-bit mixing function of splitmix64 is evaluated on the grid (item,
counter) instead. The functions marked `@kernel` are for use inside other numba kernels.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any, no_type_check

import numpy as np

from setpredict.core.jit import kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@lru_cache(maxsize=256)
def key(*parts: int | str) -> int:
    """A well-mixed 64-bit key from numbers (0 or more) and names.

    Trailing zeros do not count (`numpy.random.SeedSequence` pads with them): always use the same number of parts for
    the same purpose.

    >>> key(0, "train", 1) == key(0, "train", 1), key(0, "train", 1) == key(0, "val", 1)
    (True, False)
    """
    words = [zlib.crc32(p.encode()) if isinstance(p, str) else p for p in parts]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])


def item_keys(key: int, indices: np.ndarray) -> np.ndarray:
    """One 64-bit key per item, (B,) uint64, from a common key and the item's index (B,)."""
    keys = np.empty(len(indices), np.uint64)
    run: Any = _item_keys
    run(np.uint64(key), np.asarray(indices, np.int64), keys)
    return keys


def uniform(keys: np.ndarray, count: int) -> np.ndarray:
    """`count` numbers uniform in [0, 1) per item, as (B, count) float64, from the items' keys (B,) uint64.

    >>> a = uniform(item_keys(7, np.array([3, 4, 5])), 2)
    >>> b = uniform(item_keys(7, np.array([5])), 2)
    >>> a.shape, bool((a[2] == b[0]).all())
    ((3, 2), True)
    """
    numbers = np.empty((len(keys), count))
    run: Any = _uniform
    run(keys, numbers)
    return numbers


def normal(keys: np.ndarray, count: int) -> np.ndarray:
    """`count` standard normal numbers per item, as (B, count) float64: Box and Muller's transform of `uniform`."""
    u, v = np.split(uniform(keys, 2 * count), 2, axis=1)
    return np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * v)


@kernel
@no_type_check
def mix(x):
    """splitmix64's finalizer: a bijection of 64-bit integers that maps neighbors far apart."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
@no_type_check
def start(key, index):
    """The initial state of an item's generator; add GOLDEN before each `mix`."""
    return mix(np.uint64(key) + np.uint64(index + 1) * GOLDEN)


@kernel
@no_type_check
def draw(state):
    """A number uniform in [0, 1); `state` (1,) uint64 advances."""
    state[0] += GOLDEN
    return np.float64(mix(state[0]) >> np.uint64(11)) * 2.0**-53


@kernel
@no_type_check
def _item_keys(key, indices, keys):
    for b in range(len(indices)):
        keys[b] = start(key, indices[b])


@kernel
@no_type_check
def _uniform(keys, numbers):
    for b in range(len(keys)):
        state = keys[b]
        for i in range(numbers.shape[1]):
            state += GOLDEN
            numbers[b, i] = np.float64(mix(state) >> np.uint64(11)) * 2.0**-53
