"""CPU kernels of the nearest-neighbor search, for pairs of sets [first, last), without the GIL.

For each element the costs to all of the other set are written to a row that stays in the cache: plain loops over
contiguous numbers, which the compiler turns into vector instructions (it does not for a search that carries indices
along, so the least cost is found first and then where it stands). Each direction is a sweep of its own.
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np

from setpredict.matching.cost_kernels import add_huber, add_squared

FAST = {"contract", "nsz", "nnan"}  # a NaN finds some index, as it does in torch


@numba.njit(cache=True, nogil=True)
@no_type_check
def nearest(a, b, a_here, b_here, huber, to_b, to_a, first, last):
    """The index of the cheapest b for every a in to_b (P, N), and of the cheapest a for every b in to_a (P, M).

    `a_here` (P, N) and `b_here` (P, M) say what is present; they are empty where all is.
    """
    _, N, C = a.shape
    M = b.shape[1]
    features_a, features_b = np.empty((C, N), a.dtype), np.empty((C, M), b.dtype)
    row_a, row_b = np.empty(N, a.dtype), np.empty(M, b.dtype)
    for p in range(first, last):
        for i in range(N):
            for c in range(C):
                features_a[c, i] = a[p, i, c]
        for j in range(M):
            for c in range(C):
                features_b[c, j] = b[p, j, c]
        sweep(a[p], features_b, b_here[p] if len(b_here) else b_here[:0].ravel(), huber, row_b, to_b[p])
        sweep(b[p], features_a, a_here[p] if len(a_here) else a_here[:0].ravel(), huber, row_a, to_a[p])


@numba.njit(cache=True, nogil=True)
@no_type_check
def sweep(elements, others, here, huber, row, found):
    """For each of `elements` (N, C) the index of the cheapest of `others` (C, M) that is `here` (M,)."""
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
        if len(here):
            for j in range(len(row)):
                row[j] = row[j] if here[j] else np.inf
        found[i] = place(row, least(row))


@numba.njit(cache=True, nogil=True, fastmath=FAST)
@no_type_check
def huber_3(x, y, z, xs, ys, zs, row):
    """Write the sum of h(d) over three features: h(d) = m (|d| − m/2) with m = min(|d|, 1)."""
    half, one = row.dtype.type(0.5), row.dtype.type(1)
    for j in range(len(row)):
        d, e, f = abs(x - xs[j]), abs(y - ys[j]), abs(z - zs[j])
        m, n, o = min(d, one), min(e, one), min(f, one)
        row[j] = m * (d - half * m) + n * (e - half * n) + o * (f - half * o)


@numba.njit(cache=True, nogil=True, fastmath=FAST)
@no_type_check
def least(row):
    value = row[0]
    for j in range(1, len(row)):
        value = row[j] if row[j] < value else value
    return value


@numba.njit(cache=True, nogil=True)
@no_type_check
def place(row, value):
    """The first index of that value, 0 if it is nowhere."""
    for j in range(len(row)):
        if row[j] == value:
            return j
    return 0
