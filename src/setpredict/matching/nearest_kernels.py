"""CPU kernels of the nearest-neighbor search, for pairs of sets [start, stop), without the GIL.

For each element the costs to all elements of the other set are written to a row that stays in the cache: plain loops
over contiguous numbers, which the compiler vectorizes. It does not vectorize a search that carries indices along, so
the minimum is found first and its index afterwards. Each direction is a separate search.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from setpredict.core.jit import kernel
from setpredict.matching.cost_kernels import add_huber, add_squared

NO_NAN = {"contract", "nsz", "nnan"}
"""As in `cost_kernels`, and values are assumed not to be NaN: with one, some valid index is found, as in torch."""


@kernel
@no_type_check
def nearest(a, b, a_present, b_present, huber, to_b, to_a, start, stop):
    """Write the index of the cheapest b for every a to to_b (P, N), and of the cheapest a for every b to to_a (P, M).

    `a_present` (P, N) and `b_present` (P, M) say what is present; empty arrays mean that all are.
    """
    _, N, C = a.shape
    M = b.shape[1]
    features_a, features_b = np.empty((C, N), a.dtype), np.empty((C, M), b.dtype)
    row_a, row_b = np.empty(N, a.dtype), np.empty(M, b.dtype)
    for p in range(start, stop):
        for i in range(N):
            for c in range(C):
                features_a[c, i] = a[p, i, c]
        for j in range(M):
            for c in range(C):
                features_b[c, j] = b[p, j, c]
        search(a[p], features_b, b_present[p] if len(b_present) else b_present[:0].ravel(), huber, row_b, to_b[p])
        search(b[p], features_a, a_present[p] if len(a_present) else a_present[:0].ravel(), huber, row_a, to_a[p])


@kernel
@no_type_check
def search(elements, others, present, huber, row, index):
    """For each of `elements` (N, C), write the index of the cheapest of `others` (C, M) that is `present` (M,)."""
    C = len(others)
    for i in range(len(elements)):
        if C == 3 and huber:
            huber_3(elements[i, 0], elements[i, 1], elements[i, 2], others[0], others[1], others[2], row)
        else:
            row[:] = 0
            for c in range(C):
                if huber:
                    add_huber(elements[i, c], others[c], row)
                else:
                    add_squared(elements[i, c], others[c], row)
        if len(present):
            for j in range(len(row)):
                row[j] = row[j] if present[j] else np.inf
        index[i] = index_of(row, minimum(row))


@kernel(fastmath=NO_NAN)
@no_type_check
def huber_3(x, y, z, xs, ys, zs, row):
    """Write the sum of h(d) over three features: h(d) = m (|d| − m/2) with m = min(|d|, 1)."""
    half, one = row.dtype.type(0.5), row.dtype.type(1)
    for j in range(len(row)):
        d, e, f = abs(x - xs[j]), abs(y - ys[j]), abs(z - zs[j])
        m, n, o = min(d, one), min(e, one), min(f, one)
        row[j] = m * (d - half * m) + n * (e - half * n) + o * (f - half * o)


@kernel(fastmath=NO_NAN)
@no_type_check
def minimum(row):
    value = row[0]
    for j in range(1, len(row)):
        value = row[j] if row[j] < value else value
    return value


@kernel
@no_type_check
def index_of(row, value):
    """The first index of the value, 0 if it does not occur."""
    for j in range(len(row)):
        if row[j] == value:
            return j
    return 0
