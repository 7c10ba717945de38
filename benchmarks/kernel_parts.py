"""The products and the pooling of the kernels that compute a whole step, alone, to know their share of its time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, no_type_check

import numba
import numpy as np

from setpredict.decoders.fast import pool_kernels
from setpredict.decoders.fast.products import add_transposed, multiply
from setpredict.decoders.fast.sample_step import SampleKernels


def products_alone(kernels: SampleKernels, sets: int, batch: int, backward: bool, gradients: bool) -> None:
    """The products of `SampleKernels.forward` or `backward` for that many different sets, on arbitrary numbers."""
    # how many times: layers forward, layers backward, gradients of the weights
    count = (batch, sets, batch + sets) if backward else (sets, batch * gradients, 0)
    run: Any = _products
    run(kernels.weights, kernels.sizes, *count, *_values(kernels.sizes))


def pooling_alone(kernels: SampleKernels, sets: int, batch: int, backward: bool, gradients: bool) -> None:
    """The same for the pooling."""
    _, _, R, _, C, _ = kernels.sizes
    x, out, *_ = _values(kernels.sizes)
    ranks, code = _ranks(R, C), np.empty(C, x.dtype)
    if not backward:
        run: Any = pool_kernels.pool
        for _ in range(sets):
            run(x, kernels.weights.ranks, ranks, code, out, R, C, kernels.objective.descending, 0, 1)
        return
    slope, given, grad, of_x = x[:C], x[:1], np.zeros_like(kernels.weights.ranks), np.empty_like(out)
    run = pool_kernels.pool_backward
    for _ in range(batch):
        run(x, x, ranks, kernels.weights.ranks, slope, slope, given, out, of_x, code, grad, R, C, False, 0, 1)


@lru_cache
def _values(sizes: Any) -> tuple[np.ndarray, ...]:
    """Input and output of one sample's products, and the gradient of its weights."""
    size = sizes.R * max(sizes.H, sizes.C, sizes.wide) + sizes.N * sizes.wide
    x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    return x, np.empty_like(x), np.zeros(max(sizes.C * sizes.H, sizes.D * sizes.wide), np.float32)


@lru_cache
def _ranks(R: int, C: int) -> np.ndarray:
    return np.random.default_rng(0).random((R, C)).argsort(axis=0).astype(np.uint8).reshape(-1)


@numba.njit(cache=True, nogil=True)
@no_type_check
def _products(weights, sizes, forward, back, gradients, x, out, grad):
    N, D, R, H, C, wide = sizes
    none = np.zeros(max(H, C, wide, D + 16), x.dtype)
    for _ in range(forward):
        multiply(x, D, weights.first, none, out, N, wide)
        multiply(x, H, weights.last, none, out, R, C)
    for _ in range(back):
        multiply(x, C, weights.last_back, none, out, R, H)
        multiply(x, wide, weights.first_back, none, out, N, len(weights.first_back) // wide)
    for _ in range(gradients):
        add_transposed(x, x, grad, R, C, H)
        add_transposed(x, x, grad, N, D, wide)
