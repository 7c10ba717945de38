"""CPU kernels of the fast inner step's pooling for few elements: channels are the lanes of vector instructions.

The rank of an element is the number of elements before it, counted by comparing all pairs. That is more work than
sorting, but has no branches and no data-dependent addresses: up to `MOST` elements it takes less time than the sort of
`pool_kernels`, whose functions these replace one for one. Loops over lanes have a constant length, as blocks do there.
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np

LANES = 64
MOST = 64


@numba.njit(cache=True, nogil=True)
@no_type_check
def pool(x, weights, ranks, code, each, descending, first, last):
    """As `pool_kernels.pool`."""
    _, N, C = x.shape
    keys, rank, weight = lanes(N, x), lanes(N, x), lanes(N, x)
    total = np.empty(LANES, x.dtype)
    sign = x.dtype.type(-1 if descending else 1)
    for s in range(first, last):
        for start in range(0, C, LANES):
            width = min(LANES, C - start)
            to_lanes(x[s], start, width, sign, keys)
            count(keys, rank)
            total[:] = 0
            for n in range(N):
                look_up(weights, start, width, rank[n], weight[n])
                for c in range(LANES):
                    total[c] += weight[n, c] * keys[n, c]
            for c in range(width):
                code[s, start + c] = sign * total[c]
            from_lanes(weight, start, width, each[s])
            if len(ranks):
                store_ranks(rank, start, width, ranks[s])


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
@no_type_check
def pool_backward(
    x, tangent, ranks, weights, slope, second, loss_grad, of_tangent, of_x, of_code, grad, worker, first, last
):
    """As `pool_kernels.pool_backward`."""
    _, N, C = tangent.shape
    rank, weight, ahead, own = lanes(N, tangent), lanes(N, tangent), lanes(N, tangent), lanes(N, tangent)
    steep, bent, back = lanes(1, tangent), lanes(1, tangent), lanes(1, tangent)
    one = tangent.dtype.type(1)
    for b in range(first, last):
        s = b if len(ranks) > 1 else 0
        for start in range(0, C, LANES):
            width = min(LANES, C - start)
            to_lanes(ranks[s], start, width, one, rank)
            to_lanes(tangent[b], start, width, one, ahead)
            to_lanes(slope[b : b + 1], start, width, one, steep)
            to_lanes(second[b : b + 1], start, width, one, bent)
            back[:] = 0
            for n in range(N):
                look_up(weights, start, width, rank[n], weight[n])
                for c in range(LANES):
                    back[0, c] += weight[n, c] * ahead[n, c]
            for c in range(LANES):
                back[0, c] = bent[0, c] * back[0, c] + loss_grad[b] * steep[0, c]
            from_lanes(back, start, width, of_code[b : b + 1])
            if len(grad):
                to_lanes(x[s], start, width, one, own)
                for n in range(N):
                    for c in range(LANES):
                        ahead[n, c] = steep[0, c] * ahead[n, c] + back[0, c] * own[n, c]
                    for c in range(width):
                        grad[worker, start + c, np.uint32(rank[n, c])] += ahead[n, c]
            if len(of_x):
                times(weight, back[0], own)
                from_lanes(own, start, width, of_x[b])
            times(weight, steep[0], own)
            from_lanes(own, start, width, of_tangent[b])


@numba.njit(cache=True, nogil=True)
@no_type_check
def lanes(N, like):
    """Zeros (N, LANES), an allocation of their own: the compiler does not know the strides of parts of a larger one."""
    return np.zeros((N, LANES), like.dtype)


@numba.njit(cache=True, nogil=True)
@no_type_check
def count(keys, rank):
    """Ranks of keys (N, LANES), ascending; among equal values the earlier element comes first.

    They are kept in the type of the keys, so that lanes have the same width. NaN gives ranks of other elements too.
    """
    N = len(keys)
    one, none = keys.dtype.type(1), keys.dtype.type(0)
    for i in range(N):
        for c in range(LANES):
            rank[i, c] = N - 1 - i
    for i in range(1, N):
        for j in range(i):
            for c in range(LANES):
                before = one if keys[j, c] <= keys[i, c] else none
                rank[i, c] += before
                rank[j, c] -= before


@numba.njit(cache=True, nogil=True)
@no_type_check
def look_up(weights, start, width, rank, weight):
    """The weights (C, N) of channels from `start` at their ranks."""
    if width == LANES:
        part = weights[start : start + LANES]
        for c in range(LANES):
            weight[c] = part[c, np.uint32(np.int32(rank[c]))]  # conversion to signed integers has a vector instruction
    else:
        for c in range(width):
            weight[c] = weights[start + c, np.uint32(rank[c])]


@numba.njit(cache=True, nogil=True)
@no_type_check
def times(matrix, row, product):
    """Every row of (N, LANES) times one."""
    for n in range(len(matrix)):
        for c in range(LANES):
            product[n, c] = matrix[n, c] * row[c]


@numba.njit(cache=True, nogil=True)
@no_type_check
def to_lanes(matrix, start, width, factor, block):
    """Columns [start, start + width) of (N, C), times a factor, into (N, LANES)."""
    for n in range(len(matrix)):
        row = matrix[n, start : start + width]
        if width == LANES:
            for c in range(LANES):
                block[n, c] = factor * row[c]
        else:
            for c in range(width):
                block[n, c] = factor * row[c]


@numba.njit(cache=True, nogil=True)
@no_type_check
def from_lanes(block, start, width, matrix):
    """(N, LANES) into columns [start, start + width) of (N, C)."""
    for n in range(len(matrix)):
        row = matrix[n, start : start + width]
        if width == LANES:
            for c in range(LANES):
                row[c] = block[n, c]
        else:
            for c in range(width):
                row[c] = block[n, c]


@numba.njit(cache=True, nogil=True)
@no_type_check
def store_ranks(rank, start, width, ranks):
    """The same for ranks, which become integers."""
    for n in range(len(rank)):
        row = ranks[n, start : start + width]
        if width == LANES:
            for c in range(LANES):
                row[c] = np.int32(rank[n, c])
        else:
            for c in range(width):
                row[c] = np.int32(rank[n, c])
