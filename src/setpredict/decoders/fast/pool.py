"""FSPool and the representation loss of the fast inner step, with their first and second derivatives.

For a sample, c = Σ_n p_n x_n a channel, where p_n is the weight of x_n's rank; d = c − z; the loss is mean h(d). Its
slope s = h'(d)/C gives ∂loss/∂x_n = s p_n. For a direction ẋ of x, ċ = Σ_n p_n ẋ_n, and the derivative of s·ċ goes back
through c with q = h''(d)/C · ċ. Ranks do not change in a neighborhood, so nothing is differentiated through them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from setpredict.decoders import pool_kernels
from setpredict.core.threads import parallel_for, workers


class Pooled(NamedTuple):
    """What the pooling found: S is B, or 1 where all samples are the same set."""

    code: Tensor  # (S, C)
    ranks: Tensor  # (S, N, C), in narrow integers on a CPU
    weights: Tensor  # (S, N, C), the weight p of every element's rank


def pool(x: Tensor, weights: Tensor, descending: bool, keep: bool) -> Pooled:
    """Sort x (S, N, C) and weigh it with weights (C, N), one a rank; the ranks only if they are to be kept."""
    if has_kernel(x):
        code, each = x.new_empty(x.shape[0], x.shape[2]), torch.empty_like(x)
        ranks = empty_ranks(x if keep else x[:0])
        arrays: Any = [t.detach().numpy() for t in (x, weights, ranks, code, each)]
        run: Any = pool_kernels.pool
        parallel_for(len(x), lambda a, b, _: run(*arrays, descending, a, b))
        return Pooled(code, ranks, each)
    places = x.sort(dim=1, descending=descending).indices
    order = torch.arange(x.shape[1], device=x.device)[:, None].expand(x.shape[1:]).expand_as(places)
    ranks = torch.empty_like(places).scatter_(1, places, order)
    each = by_rank(weights, ranks)
    return Pooled((each * x).sum(dim=1), ranks, each)


def losses(code: Tensor, z: Tensor, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """mean h(c − z) a sample (B,), its slope h'/C (B, C) and its curvature h''/C (B, C)."""
    d = code - z
    if kind == "squared":
        return (d * d / 2).mean(dim=1), d / d.shape[1], torch.full_like(d, 1 / d.shape[1])
    size = d.abs()
    near = size.clamp(max=1)
    curve = (size < 1).to(d.dtype) / d.shape[1]
    return (near * (size - near / 2)).mean(dim=1), d.clamp(-1, 1) / d.shape[1], curve


class PoolBack(NamedTuple):
    """Seeds of both ways back through the network, and the gradients of z and of the rank weights."""

    slope_x: Tensor  # (B, N, C), s p: back through the tangent
    seed_x: Tensor | None  # (B, N, C), q p: back through the network itself; None where the caller has one set for all
    seed: Tensor  # (B, C), q
    weights: Tensor | None  # (C, N)


def pool_back(
    x: Tensor | None,
    tangent: Tensor,
    ranks: Tensor,
    weights: Tensor,
    slope: Tensor,
    curve: Tensor,
    loss_grad: Tensor | None,
    shared: bool,
) -> PoolBack:
    """Given the tangent ẋ (B, N, C) and the cotangent of the losses (B,); x (S, N, C) for the weights' gradient only.

    `shared`: x is one set for all samples, whose way back the caller takes once.
    """
    B, N, C = tangent.shape
    if has_kernel(tangent):
        slope_x = torch.empty_like(tangent)
        seed_x = slope_x.new_empty(0, 0, 0) if shared else torch.empty_like(tangent)
        seed = torch.empty_like(slope)
        grad = tangent.new_zeros(workers(B) if x is not None else 0, C, N)
        given = tangent.new_zeros(B) if loss_grad is None else loss_grad.contiguous()
        own = tangent.new_empty(0, 0, 0) if x is None else x
        tensors = (own, tangent, ranks, weights, slope, curve, given, slope_x, seed_x, seed, grad)
        arrays: Any = [t.detach().numpy() for t in tensors]
        run: Any = pool_kernels.pool_back
        parallel_for(B, lambda a, b, worker: run(*arrays, worker, a, b))
        return PoolBack(slope_x, None if shared else seed_x, seed, None if x is None else grad.sum(dim=0))
    each = by_rank(weights, ranks)
    seed = curve * (each * tangent).sum(dim=1)
    if loss_grad is not None:
        seed = seed + loss_grad[:, None] * slope
    grad = None
    if x is not None:
        values = slope[:, None] * tangent + seed[:, None] * x
        grad = (
            weights.new_zeros(N, C).scatter_add_(0, ranks.expand(B, N, C).flatten(0, 1).long(), values.flatten(0, 1)).T
        )
    return PoolBack(slope[:, None] * each, None if shared else seed[:, None] * each, seed, grad)


def by_rank(weights: Tensor, ranks: Tensor) -> Tensor:
    """The weight of every element's rank: weights (C, N) at ranks (S, N, C)."""
    return weights.T[ranks.long(), torch.arange(ranks.shape[2], device=ranks.device)]


def has_kernel(x: Tensor) -> bool:
    """Whether the CPU kernels take it: they know float32 and float64, and sets that have elements."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and x.numel() > 0


def empty_ranks(x: Tensor) -> Tensor:
    """Room for the ranks of (S, N, C), in the narrowest integers: they are kept for the way back."""
    kind = torch.uint8 if x.shape[1] <= 256 else torch.uint16 if x.shape[1] <= 65536 else torch.int32
    return torch.empty(x.shape, dtype=kind, device=x.device)
