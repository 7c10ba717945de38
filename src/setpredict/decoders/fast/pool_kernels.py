"""CPU kernels of the fast inner step's pooling, for samples [first, last), without the GIL.

Channels are processed `LANES` at a time, as the lanes of vectors; C is a multiple of `LANES`. Arrays are flat: x, ranks
and what has their shape (S, N, C), codes (S, C), weights and their gradient (C / LANES, N, LANES). What is read more
than once is copied to buffers first: rows that are a power of 2 apart displace each other from the cache.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from setpredict.core.jit import kernel
from setpredict.decoders.fast.lane_sorting import order, row_capacity
from setpredict.decoders.fast.lanes import (
    LANES,
    add_scattered,
    fill,
    gather,
    larger,
    load,
    prefetch,
    scatter,
    scatter_one,
    smaller,
    store,
    total,
    zero_unless_less,
)

ALL = -1  # a mask that leaves integers as they are


@kernel
@no_type_check
def pool(x, weights, ranks, code, each, N, C, descending, first, last):
    """Sort every channel of x; out: ranks, code, and in `each` the weight by element. Empty `ranks` are not filled."""
    keys, weight = np.empty((2, N * LANES), x.dtype)
    rows, rank, values, sources = buffers(N, x, ranks)
    sign = fill(x.dtype.type(-1 if descending else 1))
    for s in range(first, last):
        for start in range(0, C, LANES):
            at = s * N * C + start
            mask = take_and_sort(x, at, N, C, sign, keys, rows, values, sources)
            sums = weigh(weights, start * N, N, mask, keys, rows, weight, rank, len(ranks) > 0)
            store(code, s * C + start, sign * sums)
            put(weight, fill(x.dtype.type(1)), each, at, N, C)
            if len(ranks):
                put_ranks(rank, ranks, at, N, C)


@kernel
@no_type_check
def pool_and_loss(x, z, weights, ranks, loss, slope, second, cotangent, N, C, scale, bound, descending, first, last):
    """The same, and the loss with its derivatives as in `pool.losses`; out: cotangent, the slope times the weight.

    The loss is the sum of h times `scale`, where h is quadratic up to `bound`, and linear from there.
    """
    keys, weight = np.empty((2, N * LANES), x.dtype)
    rows, rank, values, sources = buffers(N, x, ranks)
    sign = fill(x.dtype.type(-1 if descending else 1))
    for s in range(first, last):
        losses = fill(x.dtype.type(0))
        for start in range(0, C, LANES):
            at, k = s * N * C + start, s * C + start
            mask = take_and_sort(x, at, N, C, sign, keys, rows, values, sources)
            d = sign * weigh(weights, start * N, N, mask, keys, rows, weight, rank, len(ranks) > 0) - load(z, k)
            value, steep, curved = loss_and_derivatives(d, x.dtype.type(bound), x.dtype.type(scale))
            losses = losses + value
            store(slope, k, steep)
            store(second, k, curved)
            put(weight, steep, cotangent, at, N, C)
            if len(ranks):
                put_ranks(rank, ranks, at, N, C)
        loss[s] = total(losses) * scale


@kernel
@no_type_check
def pool_backward(
    x, tangent, ranks, weights, slope, second, loss_grad, of_tangent, of_x, of_code, grad, N, C, shared, first, last
):
    """The derivatives that `pool.pool_backward` describes; adds to the gradient of the weights unless it is empty."""
    weight, ahead = np.empty((2, N * LANES), tangent.dtype)
    for b in range(first, last):
        given = fill(loss_grad[b])
        for start in range(0, C, LANES):
            at, k, base = b * N * C + start, b * C + start, start * N
            own = start if shared else at
            sums = fill(tangent.dtype.type(0))
            for n in range(N):
                prefetch(tangent, at + n * C + LANES)
                if len(grad):
                    prefetch(x, own + n * C + LANES)
                moved, each = load(tangent, at + n * C), gather(weights, base, ranks, own + n * C, ALL)
                store(ahead, n * LANES, moved)
                store(weight, n * LANES, each)
                sums = sums + each * moved
            steep = load(slope, k)
            back = load(second, k) * sums + given * steep
            store(of_code, k, back)
            if len(grad):
                for n in range(N):
                    value = steep * load(ahead, n * LANES) + back * load(x, own + n * C)
                    add_scattered(grad, base, ranks, own + n * C, ALL, value)
            put(weight, steep, of_tangent, at, N, C)
            if len(of_x):
                put(weight, back, of_x, at, N, C)


@kernel
@no_type_check
def loss_and_derivatives(d, bound, scale):
    """h(d), h'(d) · scale and h''(d) · scale of a vector, where h is quadratic up to `bound`, and linear from there."""
    most, half, scales = fill(bound), fill(type(bound)(0.5)), fill(scale)
    size = larger(d, fill(type(bound)(0)) - d)
    near = smaller(most, size)  # the second one is NaN where d is
    slope = larger(fill(-bound), smaller(most, d)) * scales
    return near * (size - half * near), slope, zero_unless_less(size, most, scales)


@kernel
@no_type_check
def buffers(N, like, ranks):
    """Rows to sort, ranks, and what `order` needs besides."""
    size = max(N, LANES)
    rows, rank = np.empty(row_capacity(N) * LANES, np.int32), np.empty(N * LANES, ranks.dtype)
    return rows, rank, np.empty((2, size), like.dtype), np.empty((3, size), np.int32)


@kernel
@no_type_check
def take_and_sort(x, at, N, C, sign, keys, rows, values, sources):
    """The keys of a block of channels of one sample, and their order; returns the mask of the index."""
    for n in range(N):
        store(keys, n * LANES, sign * load(x, at + n * C))
        prefetch(x, at + n * C + LANES)
    return order(keys, N, rows, values, sources)


@kernel
@no_type_check
def weigh(weights, base, N, mask, keys, rows, weight, rank, keep):
    """Give every element the weight of its rank, and with `keep` its rank; sum up weight · key."""
    for r in range(N):
        scatter(weight, 0, rows, r * LANES, mask, weights, base + r * LANES)
    if keep:
        for r in range(N):
            scatter_one(rank, 0, rows, r * LANES, mask, r)
    sums = fill(keys.dtype.type(0))
    for n in range(N):
        sums = sums + load(weight, n * LANES) * load(keys, n * LANES)
    return sums


@kernel
@no_type_check
def put_ranks(rank, ranks, at, N, C):
    """The ranks of a block into columns of a matrix."""
    for n in range(N):
        store(ranks, at + n * C, load(rank, n * LANES))


@kernel
@no_type_check
def put(block, factor, matrix, at, N, C):
    """The rows of a block, times a vector, into columns of a matrix."""
    for n in range(N):
        store(matrix, at + n * C, factor * load(block, n * LANES))
