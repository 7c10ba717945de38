"""The whole inner step of one sample after another, for encoders with one hidden layer: its values stay in the cache.

First layer, hidden values h (R, H), the pool's input x (R, C), pooling, loss, and back to the elements (N, D): the math
is that of `step.py`, without torch operations in between, which take longer than the math where sets are small. Arrays
are flat. The first layer is a product of `wide` columns: for pairs of elements, left and right side by side (2H); else
H. What is empty is not computed.
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import numpy as np

from setpredict.core.jit import kernel
from setpredict.decoders.fast.lanes import LANES, fill, gather, larger, load, store, total, zero_unless_less
from setpredict.decoders.fast.pair_kernels import add_gated_pairs, add_pairs, sum_gated_pairs
from setpredict.decoders.fast.pool_kernels import ALL, loss_and_derivatives, pool, pool_backward
from setpredict.decoders.fast.products import add_transposed, multiply


class Sizes(NamedTuple):
    """The sizes of a sample."""

    N: int
    D: int
    R: int  # rows of the network: N, or N² for pairs
    H: int
    C: int
    wide: int  # columns of the first layer's product


class Weights(NamedTuple):
    """The weights as `products.pack` orders them, forward and backward, and the biases."""

    first: Any  # (D, wide)
    first_bias: Any  # (H,)
    first_back: Any  # (wide, D)
    last: Any  # (H, C)
    last_bias: Any  # (C,)
    last_back: Any  # (C, H)
    ranks: Any  # (R, C)


class Objective(NamedTuple):
    """The representation loss."""

    scale: float  # 1 / C
    bound: float  # quadratic up to here
    descending: bool


class Kept(NamedTuple):
    """What forward keeps for backward."""

    x: Any  # (S, R, C)
    ranks: Any  # (S, R, C)
    reduced: Any  # (B, N, wide)
    slope: Any  # (B, C)
    second_derivative: Any  # (B, C)


class Grads(NamedTuple):
    """The gradients of the weights, to which one worker adds."""

    first: Any  # (D, wide)
    first_bias: Any  # (wide,)
    last: Any  # (C, H)
    last_bias: Any  # (C,)
    ranks: Any  # like the weights


@kernel
@no_type_check
def forward(y, z, weights, sizes, objective, kept, loss, grad, first, last):
    """The losses (B,) and gradients (B, N, D) of samples [first, last); y may be one set for all of them."""
    N, D, R, H, C, wide = sizes
    shared, kind = len(y) < len(loss) * N * D, y.dtype
    h, delta = np.empty((2, R * H), kind)
    each, cotangent = np.empty((2, R * C), kind)
    code, own_x, own_reduced = np.empty(C, kind), np.empty(R * C, kind), np.empty(N * wide, kind)
    x, ranks = own_x, kept.ranks[:0]
    for s in range(first, last):
        if s == first or not shared:
            at = 0 if shared else s
            hidden(y[at * N * D : (at + 1) * N * D], weights, sizes, h)
            if len(kept.x):
                x = kept.x[at * R * C : (at + 1) * R * C]
            if len(kept.ranks):
                ranks = kept.ranks[at * R * C : (at + 1) * R * C]
            multiply(h, H, weights.last, weights.last_bias, x, R, C)
            pool(x, weights.ranks, ranks, code, each, R, C, objective.descending, 0, 1)
        part = slice(s * C, (s + 1) * C)
        slope, second = kept.slope[part], kept.second_derivative[part]
        loss[s] = weigh_by_slope(code, z[part], each, objective, slope, second, cotangent, R, C)
        if len(grad):
            reduced = kept.reduced[s * N * wide : (s + 1) * N * wide] if len(kept.reduced) else own_reduced
            back(cotangent, h, weights, sizes, delta, reduced, grad[s * N * D : (s + 1) * N * D])


@kernel
@no_type_check
def backward(y, u, loss_grad, weights, sizes, kept, of_code, grad_y, grads, first, last):
    """The double backward of samples [first, last), given the cotangents of their gradients and losses.

    Out: `of_code` (B, C), the gradient of y, which is added to where all samples share it, and those of the weights.
    """
    N, D, R, H, C, wide = sizes
    shared, kind = len(y) < len(u), y.dtype
    h, tangent, delta = np.empty((3, R * H), kind)
    x, moved, of_tangent, of_x = np.empty((4, R * C), kind)
    reduced, none = np.empty(N * wide, kind), np.zeros(C, kind)
    ranks, own_grad, trains = kept.ranks[: R * C], np.empty(N * D, kind), len(grads.last) > 0
    for s in range(first, last):
        elements, part = slice(s * N * D, (s + 1) * N * D), slice(s * C, (s + 1) * C)
        if s == first or not shared:
            at = 0 if shared else s
            rows = slice(at * R * C, (at + 1) * R * C)
            hidden(y[at * N * D : (at + 1) * N * D], weights, sizes, h)
            ranks = kept.ranks[rows]
            if len(kept.x):
                x = kept.x[rows]
            elif len(grads.ranks):
                multiply(h, H, weights.last, weights.last_bias, x, R, C)
        first_tangent(u[elements], weights, sizes, h, tangent)
        multiply(tangent, H, weights.last, none, moved, R, C)
        slope, second, given = kept.slope[part], kept.second_derivative[part], loss_grad[s : s + 1]
        known = weights.ranks, slope, second, given, of_tangent, of_x[:0] if shared else of_x, of_code[part]
        pool_backward(x, moved, ranks, *known, grads.ranks, R, C, False, 0, 1)
        if trains:
            add_transposed(of_tangent, tangent, grads.last, R, C, H)
            mine = kept.reduced[s * N * wide : (s + 1) * N * wide] if len(kept.reduced) else reduced
            if not len(kept.reduced):
                back(of_tangent, h, weights, sizes, delta, mine, own_grad[:0])
            add_transposed(u[elements], mine, grads.first, N, D, wide)
        if not shared:
            back(of_x, h, weights, sizes, delta, reduced, grad_y[elements])
            if trains:
                add_gradients(of_x, h, reduced, y[elements], sizes, grads)
    if shared:  # backpropagation is linear in its cotangent: one for the sum over the samples is enough
        summed = np.zeros(C, kind)
        for s in range(first, last):
            add_rows(of_code[s * C : (s + 1) * C], summed, 1, C)
        by_rank(weights.ranks, ranks, summed, of_x, R, C)
        back(of_x, h, weights, sizes, delta, reduced, own_grad)
        for i in range(N * D):
            grad_y[i] += own_grad[i]
        if trains:
            add_gradients(of_x, h, reduced, y, sizes, grads)


@kernel
@no_type_check
def hidden(y, weights, sizes, h):
    """h = relu(a₁) (R, H) of one set (N, D)."""
    N, D, H, wide = sizes.N, sizes.D, sizes.H, sizes.wide
    if wide == H:
        multiply(y, D, weights.first, weights.first_bias, h, N, H)
        none = fill(h.dtype.type(0))
        for k in range(0, N * H, LANES):
            store(h, k, larger(none, load(h, k)))  # the second one is NaN if it is
    else:
        halves, none = np.empty(N * wide, h.dtype), np.zeros(wide, h.dtype)
        multiply(y, D, weights.first, none, halves, N, wide)
        add_pairs(halves, weights.first_bias, h, N, H, 0, 1)


@kernel
@no_type_check
def first_tangent(u, weights, sizes, h, tangent):
    """The derivative of h in direction u of the elements."""
    N, D, H, wide = sizes.N, sizes.D, sizes.H, sizes.wide
    none = np.zeros(wide, h.dtype)
    if wide == H:
        multiply(u, D, weights.first, none, tangent, N, H)
        gate(tangent, h, tangent, N * H)
    else:
        halves = np.empty(N * wide, h.dtype)
        multiply(u, D, weights.first, none, halves, N, wide)
        add_gated_pairs(halves, h, tangent, N, H, 0, 1)


@kernel
@no_type_check
def back(cotangent, h, weights, sizes, delta, reduced, grad):
    """From ∂/∂x (R, C) to the sums over pairs of ∂/∂a₁, `reduced` (N, wide), and to ∂/∂y (N, D) unless it is empty."""
    N, D, R, H, C, wide = sizes
    none = np.zeros(max(H, D + LANES), h.dtype)
    multiply(cotangent, C, weights.last_back, none, delta, R, H)
    if wide == H:
        gate(delta, h, reduced, N * H)
    else:
        sum_gated_pairs(delta, h, reduced, N, H, 0, 1)
    if len(grad):
        columns = len(weights.first_back) // wide  # D, and zeros
        padded = np.empty(N * columns, h.dtype)
        multiply(reduced, wide, weights.first_back, none, padded, N, columns)
        for n in range(N):
            for d in range(D):
                grad[n * D + d] = padded[n * columns + d]


@kernel
@no_type_check
def gate(values, h, out, count):
    """The values where h is above 0, and 0 elsewhere."""
    none = fill(h.dtype.type(0))
    for k in range(0, count, LANES):
        store(out, k, zero_unless_less(none, load(h, k), load(values, k)))


@kernel
@no_type_check
def weigh_by_slope(code, z, each, objective, slope, second, cotangent, R, C):
    """The loss of a sample and its derivatives; out: cotangent (R, C), the slope times the weight of every element."""
    bound, scale = code.dtype.type(objective.bound), code.dtype.type(objective.scale)
    losses = fill(code.dtype.type(0))
    for k in range(0, C, LANES):
        value, steep, curved = loss_and_derivatives(load(code, k) - load(z, k), bound, scale)
        losses = losses + value
        store(slope, k, steep)
        store(second, k, curved)
        for at in range(k, R * C, C):
            store(cotangent, at, steep * load(each, at))
    return total(losses) * scale


@kernel
@no_type_check
def by_rank(weights, ranks, factor, out, R, C):
    """out (R, C): the weight of every element's rank, times one factor per channel."""
    for k in range(0, C, LANES):
        for at in range(k, R * C, C):
            store(out, at, load(factor, k) * gather(weights, k * R, ranks, at, ALL))


@kernel
@no_type_check
def add_gradients(cotangent, h, reduced, y, sizes, grads):
    """Add the products of one sample's cotangents with the inputs of their layers, and the sums of the cotangents."""
    N, D, R, H, C, wide = sizes
    add_transposed(cotangent, h, grads.last, R, C, H)
    add_rows(cotangent, grads.last_bias, R, C)
    add_transposed(y, reduced, grads.first, N, D, wide)
    add_rows(reduced, grads.first_bias, N, wide)


@kernel
@no_type_check
def add_rows(rows, sums, count, columns):
    """Add the sum of rows (count, columns) to `sums`."""
    for k in range(0, columns, LANES):
        value = load(sums, k)
        for r in range(count):
            value = value + load(rows, r * columns + k)
        store(sums, k, value)
