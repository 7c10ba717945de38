"""CPU kernels of the fast inner step's pooling, for samples [first, last), without the GIL.

Channels are taken a block at a time: a block's values fill whole cache lines of (N, C), and become rows to sort. Loops
over a full block have a constant length, which lets the compiler unroll them (ten times as fast as a variable one).
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np

from setpredict.decoders.sorting import BUCKETS, sort_row

BLOCK = 64


@numba.njit(cache=True, nogil=True)
@no_type_check
def pool(x, weights, ranks, code, each, descending, first, last):
    """Sort every channel of x (S, N, C); out: ranks (S, N, C), code (S, C), each (S, N, C) the weight by element.

    Empty `ranks` are not filled.
    """
    _, N, C = x.shape
    rows, weight = np.empty((BLOCK, N), x.dtype), np.empty((BLOCK, N), x.dtype)
    rank = np.empty((BLOCK, N), np.int32)
    values, places = np.empty((2, N), x.dtype), np.empty((2, N), np.int32)
    bucket, begin = np.empty(N, np.int32), np.empty(BUCKETS * N + 2, np.int32)
    for s in range(first, last):
        for start in range(0, C, BLOCK):
            width = min(BLOCK, C - start)
            to_rows(x[s], start, width, rows)
            if descending:
                rows *= -1
            for c in range(width):
                sort_row(rows[c], values, places, bucket, begin)
                for r in range(N):
                    rank[c, places[0, r]] = r
                    weight[c, places[0, r]] = weights[start + c, r]
                total = dot(weight[c], rows[c])
                code[s, start + c] = -total if descending else total
            from_rows(weight, start, width, each[s])
            if len(ranks):
                from_rows(rank, start, width, ranks[s])


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
@no_type_check
def pool_back(x, tangent, ranks, weights, slope, curve, loss_grad, slope_x, seed_x, seed, grad, worker, first, last):
    """The derivatives that `fast_pool.pool_back` describes; every worker adds to a weight gradient of its own."""
    _, N, C = tangent.shape
    rank = np.empty((BLOCK, N), ranks.dtype)
    ahead, own, weight = np.empty((3, BLOCK, N), tangent.dtype)
    for b in range(first, last):
        s = b if len(ranks) > 1 else 0
        for start in range(0, C, BLOCK):
            width = min(BLOCK, C - start)
            to_rows(ranks[s], start, width, rank)
            to_rows(tangent[b], start, width, ahead)
            if len(grad):
                to_rows(x[s], start, width, own)
            for c in range(width):
                k = start + c
                for n in range(N):
                    weight[c, n] = weights[k, rank[c, n]]
                seed[b, k] = curve[b, k] * dot(weight[c], ahead[c]) + loss_grad[b] * slope[b, k]
                if len(grad):
                    ahead[c] = slope[b, k] * ahead[c] + seed[b, k] * own[c]
                    for n in range(N):
                        grad[worker, k, rank[c, n]] += ahead[c, n]
                own[c] = seed[b, k] * weight[c]
                weight[c] *= slope[b, k]
            from_rows(weight, start, width, slope_x[b])
            if len(seed_x):
                from_rows(own, start, width, seed_x[b])


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
@no_type_check
def dot(a, b):
    total = a.dtype.type(0)
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@numba.njit(cache=True, nogil=True)
@no_type_check
def to_rows(matrix, start, width, rows):
    """Columns [start, start + width) of (N, C) into rows (BLOCK, N)."""
    if width == BLOCK:
        for n in range(len(matrix)):
            for c in range(BLOCK):
                rows[c, n] = matrix[n, start + c]
    else:
        for n in range(len(matrix)):
            for c in range(width):
                rows[c, n] = matrix[n, start + c]


@numba.njit(cache=True, nogil=True)
@no_type_check
def from_rows(rows, start, width, matrix):
    """Rows (BLOCK, N) into columns [start, start + width) of (N, C)."""
    if width == BLOCK:
        for n in range(len(matrix)):
            for c in range(BLOCK):
                matrix[n, start + c] = rows[c, n]
    else:
        for n in range(len(matrix)):
            for c in range(width):
                matrix[n, start + c] = rows[c, n]
