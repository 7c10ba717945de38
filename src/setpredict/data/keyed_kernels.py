"""The generator of `keyed` for use in numba kernels: splitmix64, from a state that is one 64-bit number."""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from setpredict.data.kernel import kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@kernel
@no_type_check
def mix(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
@no_type_check
def start(key, index):
    """The first state of an item's generator; add GOLDEN before each `mix`."""
    return mix(np.uint64(key) + np.uint64(index + 1) * GOLDEN)


@kernel
@no_type_check
def draw(state):
    """A number uniform in [0, 1); `state` (1,) uint64 goes on."""
    state[0] += GOLDEN
    return np.float64(mix(state[0]) >> np.uint64(11)) * 2.0**-53
