"""FSPool and the representation loss of the fast inner step, with their first and second derivatives.

For one sample and channel, c = Σ_n p_n x_n, where p_n is the weight of x_n's rank; d = c − z; the loss is mean h(d).
Its slope s = h'(d)/C gives ∂loss/∂x_n = s p_n. For a direction ẋ of x, ċ = Σ_n p_n ẋ_n, and the derivative of s·ċ goes
back through c with the cotangent q = h''(d)/C · ċ. Ranks are constant in a neighborhood, so nothing is differentiated
through them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from setpredict.core.threads import parallel_for, workers
from setpredict.decoders.fast import pool_kernels, small_pool_kernels


class Pooled(NamedTuple):
    """The result of the pooling; S is B, or 1 where all samples are the same set."""

    code: Tensor  # (S, C)
    ranks: Tensor  # (S, N, C), in narrow integers on a CPU
    weights: Tensor  # (S, N, C), the weight p of every element's rank


def pool(x: Tensor, weights: Tensor, descending: bool, keep: bool) -> Pooled:
    """Sort x (S, N, C) and weigh it with weights (C, N), one per rank; return the ranks only with `keep`."""
    if has_kernel(x):
        code, each = x.new_empty(x.shape[0], x.shape[2]), torch.empty_like(x)
        ranks = empty_ranks(x if keep else x[:0])
        arrays: Any = [t.detach().numpy() for t in (x, weights, ranks, code, each)]
        run: Any = _kernels(x).pool
        parallel_for(len(x), lambda a, b, _: run(*arrays, descending, a, b))
        return Pooled(code, ranks, each)
    sources = x.sort(dim=1, descending=descending, stable=True).indices  # torch's other sort moves equal values
    order = torch.arange(x.shape[1], device=x.device)[:, None].expand(x.shape[1:]).expand_as(sources)
    ranks = torch.empty_like(sources).scatter_(1, sources, order)
    each = by_rank(weights, ranks)
    return Pooled((each * x).sum(dim=1), ranks, each)


def losses(code: Tensor, z: Tensor, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """mean h(c − z) per sample (B,), its slope h'/C (B, C) and its second derivative h''/C (B, C)."""
    d = code - z
    if kind == "squared":
        return (d * d / 2).mean(dim=1), d / d.shape[1], torch.full_like(d, 1 / d.shape[1])
    size = d.abs()
    near = size.clamp(max=1)
    second = (size < 1).to(d.dtype) / d.shape[1]
    return (near * (size - near / 2)).mean(dim=1), d.clamp(-1, 1) / d.shape[1], second


class PoolCotangents(NamedTuple):
    """What goes back through the network, twice, and the gradients of z and of the rank weights."""

    of_tangent: Tensor  # (B, N, C), s p: back through the tangent
    of_x: Tensor | None  # (B, N, C), q p: back through the network itself; None where the caller has one set for all
    of_code: Tensor  # (B, C), q
    weights: Tensor | None  # (C, N)


def pool_backward(
    x: Tensor | None,
    tangent: Tensor,
    ranks: Tensor,
    weights: Tensor,
    slope: Tensor,
    second_derivative: Tensor,
    loss_grad: Tensor | None,
    shared: bool,
) -> PoolCotangents:
    """Given the tangent ẋ (B, N, C) and the cotangent of the losses (B,); x (S, N, C) for the weights' gradient only.

    `shared`: x is one set for all samples, whose backward pass the caller takes once.
    """
    B, N, C = tangent.shape
    if has_kernel(tangent):
        of_tangent = torch.empty_like(tangent)
        of_x = tangent.new_empty(0, 0, 0) if shared else torch.empty_like(tangent)
        of_code = torch.empty_like(slope)
        grad = tangent.new_zeros(workers(B) if x is not None else 0, C, N)
        given = tangent.new_zeros(B) if loss_grad is None else loss_grad.contiguous()
        own = tangent.new_empty(0, 0, 0) if x is None else x
        tensors = (own, tangent, ranks, weights, slope, second_derivative, given, of_tangent, of_x, of_code, grad)
        arrays: Any = [t.detach().numpy() for t in tensors]
        run: Any = _kernels(tangent).pool_backward
        parallel_for(B, lambda a, b, worker: run(*arrays, worker, a, b))
        return PoolCotangents(of_tangent, None if shared else of_x, of_code, None if x is None else grad.sum(dim=0))
    each = by_rank(weights, ranks)
    of_code = second_derivative * (each * tangent).sum(dim=1)
    if loss_grad is not None:
        of_code = of_code + loss_grad[:, None] * slope
    grad = None
    if x is not None:
        values = slope[:, None] * tangent + of_code[:, None] * x
        grad = (
            weights.new_zeros(N, C).scatter_add_(0, ranks.expand(B, N, C).flatten(0, 1).long(), values.flatten(0, 1)).T
        )
    return PoolCotangents(slope[:, None] * each, None if shared else of_code[:, None] * each, of_code, grad)


def by_rank(weights: Tensor, ranks: Tensor) -> Tensor:
    """The weight of every element's rank: weights (C, N) at ranks (S, N, C)."""
    return weights.T[ranks.long(), torch.arange(ranks.shape[2], device=ranks.device)]


def has_kernel(x: Tensor) -> bool:
    """Whether the CPU kernels take it: they know float32 and float64, and sets that have elements."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and x.numel() > 0


def _kernels(x: Tensor) -> Any:
    """The module with the kernels for sets of this size (S, N, C)."""
    return small_pool_kernels if x.shape[1] <= small_pool_kernels.MOST else pool_kernels


def empty_ranks(x: Tensor) -> Tensor:
    """A buffer for the ranks of (S, N, C), in the narrowest integers: they are kept for the backward pass."""
    kind = torch.uint8 if x.shape[1] <= 256 else torch.uint16 if x.shape[1] <= 65536 else torch.int32
    return torch.empty(x.shape, dtype=kind, device=x.device)
