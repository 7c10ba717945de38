"""CPU kernels of the fast inner step's pooling, for samples [first, last), without the GIL.

Channels are processed in blocks: a block's values fill complete cache lines of (N, C), and become rows to sort. Loops
over a full block have a constant length, which lets the compiler unroll them (ten times as fast as a variable one).
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np

from setpredict.decoders.fast.sorting import BUCKETS, sort_row

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
    values, sources = np.empty((2, N), x.dtype), np.empty((2, N), np.int32)
    bucket, begin = np.empty(N, np.int32), np.empty(BUCKETS * N + 2, np.int32)
    sign = x.dtype.type(-1 if descending else 1)
    for s in range(first, last):
        for start in range(0, C, BLOCK):
            width = min(BLOCK, C - start)
            to_rows(x[s], start, width, sign, rows)
            for c in range(width):
                sort_row(rows[c], values, sources, bucket, begin)
                for r in range(N):
                    rank[c, sources[0, r]] = r
                    weight[c, sources[0, r]] = weights[start + c, r]
                code[s, start + c] = sign * dot(weight[c], rows[c])
            from_rows(weight, start, width, each[s])
            if len(ranks):
                from_rows(rank, start, width, ranks[s])


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
@no_type_check
def pool_backward(
    x, tangent, ranks, weights, slope, second, loss_grad, of_tangent, of_x, of_code, grad, worker, first, last
):
    """The derivatives that `pool.pool_backward` describes; every worker adds to a weight gradient of its own."""
    _, N, C = tangent.shape
    rank = np.empty((BLOCK, N), np.int32)
    ahead, own, weight = np.empty((3, BLOCK, N), tangent.dtype)
    own[:] = 0
    one = tangent.dtype.type(1)
    for b in range(first, last):
        s = b if len(ranks) > 1 else 0
        for start in range(0, C, BLOCK):
            width = min(BLOCK, C - start)
            to_rows(ranks[s], start, width, 1, rank)
            to_rows(tangent[b], start, width, one, ahead)
            if len(grad):
                to_rows(x[s], start, width, one, own)
            for c in range(width):
                k = start + c
                for n in range(N):
                    weight[c, n] = weights[k, rank[c, n]]
                steep = slope[b, k]
                back = second[b, k] * dot(weight[c], ahead[c]) + loss_grad[b] * steep
                of_code[b, k] = back
                if len(grad):
                    combine(steep, ahead[c], back, own[c])
                    for n in range(N):
                        grad[worker, k, rank[c, n]] += ahead[c, n]
                for n in range(N):
                    own[c, n] = back * weight[c, n]
                    weight[c, n] *= steep
            from_rows(weight, start, width, of_tangent[b])
            if len(of_x):
                from_rows(own, start, width, of_x[b])


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
@no_type_check
def combine(f, a, g, b):
    """a ← f a + g b."""
    for i in range(len(a)):
        a[i] = f * a[i] + g * b[i]


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
@no_type_check
def dot(a, b):
    total = a.dtype.type(0)
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@numba.njit(cache=True, nogil=True)
@no_type_check
def to_rows(matrix, start, width, factor, rows):
    """Columns [start, start + width) of (N, C), times a factor, into rows (BLOCK, N)."""
    if width == BLOCK:
        for n in range(len(matrix)):
            for c in range(BLOCK):
                rows[c, n] = factor * matrix[n, start + c]
    else:
        for n in range(len(matrix)):
            for c in range(width):
                rows[c, n] = factor * matrix[n, start + c]


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
