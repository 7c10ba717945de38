"""CPU kernels of the relation encoder's first layer, for samples [first, last), without the GIL.

Of a pair (i, j) the first layer is a[i, j] = left_i + right_j. `halves` (S, N, 2, H) holds left and right of every
element, in one row. H is a multiple of `LANES`; arrays are flat. `gates` are hidden values (S, N, N, H), or those of
one sample that all share: only where they are above 0 does anything pass.
"""

from __future__ import annotations

from typing import no_type_check

from setpredict.core.jit import kernel
from setpredict.decoders.fast.lanes import LANES, fill, larger, load, store, zero_unless_less


@kernel
@no_type_check
def add_pairs(halves, bias, out, N, H, first, last):
    """relu(left_i + right_j + bias) for all pairs, as (S, N, N, H)."""
    none = fill(halves.dtype.type(0))
    for k in range(0, H, LANES):
        shift = load(bias, k)
        for s in range(first, last):
            for i in range(s * N, (s + 1) * N):
                left = load(halves, 2 * i * H + k) + shift
                for j in range(N):
                    right = load(halves, (2 * (s * N + j) + 1) * H + k)
                    store(out, (i * N + j) * H + k, larger(none, left + right))  # the second one is NaN if it is


@kernel
@no_type_check
def add_gated_pairs(halves, gates, out, N, H, first, last):
    """left_i + right_j where the gate is open, and 0 elsewhere."""
    none = fill(halves.dtype.type(0))
    shared = len(gates) < len(out)
    for s in range(first, last):
        away = s * N * N * H if shared else 0
        for i in range(s * N, (s + 1) * N):
            for k in range(0, H, LANES):
                left = load(halves, 2 * i * H + k)
                for j in range(N):
                    at = (i * N + j) * H + k
                    both = left + load(halves, (2 * (s * N + j) + 1) * H + k)
                    store(out, at, zero_unless_less(none, load(gates, at - away), both))


@kernel
@no_type_check
def sum_gated_pairs(delta, gates, halves, N, H, first, last):
    """The sums over j and over i of delta (S, N, N, H) where the gate is open: left and right of every element."""
    none = fill(delta.dtype.type(0))
    shared = len(gates) < len(delta)
    for s in range(first, last):
        away = s * N * N * H if shared else 0
        for k in range(0, H, LANES):
            for j in range(N):
                store(halves, (2 * (s * N + j) + 1) * H + k, none)
            for i in range(s * N, (s + 1) * N):
                left = none
                for j in range(N):
                    at, right = (i * N + j) * H + k, (2 * (s * N + j) + 1) * H + k
                    passed = zero_unless_less(none, load(gates, at - away), load(delta, at))
                    left = left + passed
                    store(halves, right, load(halves, right) + passed)
                store(halves, 2 * i * H + k, left)
