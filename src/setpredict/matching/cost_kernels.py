"""CPU kernels of plain pair costs, for pairs of sets [start, stop), without the GIL."""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from setpredict.core.jit import kernel

KEEP_NAN = {"contract", "nsz"}
"""Floating-point rules that the compiler may relax: fused multiply-adds and the sign of zero; NaN stays NaN."""


@kernel
@no_type_check
def matrix(a, b, huber, total, start, stop):
    """Write the cost of every pair a[i], b[j], averaged over the features, to total (P, N, M)."""
    _, N, C = a.shape
    M = b.shape[1]
    features = np.empty((C, M), b.dtype)
    for p in range(start, stop):
        for j in range(M):
            for c in range(C):
                features[c, j] = b[p, j, c]
        for i in range(N):
            row = total[p, i]
            row[:] = 0
            for c in range(C):
                if huber:
                    add_huber(a[p, i, c], features[c], row)
                else:
                    add_squared(a[p, i, c], features[c], row)
            row /= C


@kernel(fastmath=KEEP_NAN)
@no_type_check
def add_huber(value, others, row):
    """Add h(d) = m (|d| − m/2) with m = min(|d|, 1) to the row."""
    half, one = row.dtype.type(0.5), row.dtype.type(1)
    for j in range(len(row)):
        d = abs(value - others[j])
        m = one if d > one else d  # a NaN stays NaN
        row[j] += m * (d - half * m)


@kernel(fastmath=KEEP_NAN)
@no_type_check
def add_squared(value, others, row):
    """Add d²/2 to the row."""
    half = row.dtype.type(0.5)
    for j in range(len(row)):
        d = value - others[j]
        row[j] += half * d * d
