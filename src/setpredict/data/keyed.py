"""Random numbers that depend on their key alone, for a whole batch at once.

An item's numbers are a function of (seed, split, epoch, index) and of nothing else: not of its batch, its
worker or what was drawn before. A `SeedSequence` for each item does this too, but costs 10 µs an item; here a
64-bit mixing function (splitmix64's finaliser) is evaluated on the grid (item, counter) instead.
"""

from __future__ import annotations

import zlib
from functools import lru_cache

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@lru_cache(maxsize=256)
def key(*parts: int | str) -> int:
    """A 64-bit key of some numbers and names, well mixed.

    >>> key(0, "train", 1) == key(0, "train", 1), key(0, "train", 1) == key(0, "val", 1)
    (True, False)
    """
    words = [zlib.crc32(p.encode()) if isinstance(p, str) else p for p in parts]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])


def uniform(key: int, indices: np.ndarray, count: int) -> np.ndarray:
    """`count` numbers uniform in [0, 1) for each of the B items, as (B, count) float64.

    >>> a = uniform(7, np.array([3, 4, 5]), 2)
    >>> b = uniform(7, np.array([5]), 2)
    >>> a.shape, bool((a[2] == b[0]).all())
    ((3, 2), True)
    """
    with np.errstate(over="ignore"):
        item = _mix(np.uint64(key) + (indices.astype(np.uint64) + np.uint64(1)) * GOLDEN)  # (B,)
        counter = (np.arange(count, dtype=np.uint64) + np.uint64(1)) * GOLDEN  # (count,)
        bits = _mix(item[:, None] + counter[None, :])  # (B, count)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
