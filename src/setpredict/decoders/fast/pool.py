"""FSPool and the representation loss of the fast inner step, with their first and second derivatives.

For one sample and channel, c = Σ_n p_n x_n, where p_n is the weight of x_n's rank; d = c − z; the loss is mean h(d).
Its slope s = h'(d)/C gives ∂loss/∂x_n = s p_n. For a direction ẋ of x, ċ = Σ_n p_n ẋ_n, and the derivative of s·ċ goes
back through c with the cotangent q = h''(d)/C · ċ. Ranks are constant in a neighborhood, so nothing is differentiated
through them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from setpredict.core.threads import parallel_for, workers
from setpredict.decoders.fast import pool_kernels
from setpredict.decoders.fast.lanes import LANES


class Pooled(NamedTuple):
    """The result of the pooling; S is B, or 1 where all samples are the same set."""

    code: Tensor  # (S, C)
    ranks: Tensor  # (S, N, C), in narrow integers on a CPU
    weights: Tensor  # (S, N, C), the weight p of every element's rank


class RankWeights(NamedTuple):
    """One weight per rank and channel, in the two layouts that the functions below read."""

    values: Tensor  # (N, C)
    blocks: Tensor | None  # (⌈C / LANES⌉, N, LANES) for the CPU kernels; None where they do not apply

    @classmethod
    def of(cls, values: Tensor) -> RankWeights:
        if not has_kernel(values):
            return cls(values, None)
        return cls(values, _padded(values.detach()).unflatten(1, (-1, LANES)).transpose(0, 1).contiguous())


def pool(x: Tensor, weights: RankWeights, descending: bool, keep: bool) -> Pooled:
    """Sort x (S, N, C) and weigh it; return the ranks only with `keep`."""
    if weights.blocks is not None:
        S, N, C = x.shape
        x = _padded(x)
        code, each = x.new_empty(S, x.shape[2]), torch.empty_like(x)
        ranks = empty_ranks(x if keep else x[:0])
        arrays = _flat(x, weights.blocks, ranks, code, each)
        run: Any = pool_kernels.pool
        parallel_for(S, lambda a, b, _: run(*arrays, N, x.shape[2], descending, a, b))
        return Pooled(*(_cut(t, C) for t in (code, ranks, each)))
    ranks = _ranks(x, descending)
    each = by_rank(weights.values, ranks)
    return Pooled((each * x).sum(dim=1), ranks, each)


class PooledLoss(NamedTuple):
    """The representation loss of the pooled sets, and what goes back through the network."""

    loss: Tensor  # (B,)
    slope: Tensor  # (B, C)
    second_derivative: Tensor  # (B, C)
    cotangent: Tensor  # (B, N, C), s p
    ranks: Tensor  # (B, N, C)


def pool_and_loss(
    x: Tensor, z: Tensor, weights: RankWeights, kind: str, descending: bool, keep: bool, out: Tensor
) -> PooledLoss:
    """`pool` and `losses` in one, of x (B, N, C) and z (B, C); the cotangent is written to `out`."""
    B, N, C = x.shape
    if weights.blocks is None:
        code, ranks, each = pool(x, weights, descending, keep)
        loss, slope, second = losses(code, z, kind)
        return PooledLoss(loss, slope, second, torch.mul(slope[:, None], each, out=out), ranks)
    whole = C % LANES == 0
    x, z = _padded(x), _padded(z.contiguous())
    loss, slope, second = x.new_empty(B), torch.empty_like(z), torch.empty_like(z)
    cotangent = out if whole else torch.empty_like(x)
    ranks = empty_ranks(x if keep else x[:0])
    arrays = _flat(x, z, weights.blocks, ranks, loss, slope, second, cotangent)
    bound = float("inf") if kind == "squared" else 1.0
    run: Any = pool_kernels.pool_and_loss
    parallel_for(B, lambda a, b, _: run(*arrays, N, x.shape[2], 1 / C, bound, descending, a, b))
    if whole:
        return PooledLoss(loss, slope, second, cotangent, ranks)
    return PooledLoss(loss, _cut(slope, C), _cut(second, C), out.copy_(cotangent[..., :C]), _cut(ranks, C))


def losses(code: Tensor, z: Tensor, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """mean h(c − z) per sample (B,), its slope h'/C (B, C) and its second derivative h''/C (B, C).

    Products with 1/C instead of divisions by C, as in the kernels: the same bits.
    """
    d, part = code - z, 1 / code.shape[1]
    if kind == "squared":
        return (d * d / 2).mean(dim=1), d * part, torch.full_like(d, part)
    size = d.abs()
    near = size.clamp(max=1)
    second = (size < 1).to(d.dtype) * part
    return (near * (size - near / 2)).mean(dim=1), torch.where(size < 1, d, d.sign()) * part, second


class PoolCotangents(NamedTuple):
    """What goes back through the network, twice, and the gradients of z and of the rank weights."""

    of_tangent: Tensor  # (B, N, C), s p: back through the tangent
    of_x: Tensor | None  # (B, N, C), q p: back through the network itself; None where the caller has one set for all
    of_code: Tensor  # (B, C), q
    weights: Tensor | None  # (N, C)


def pool_backward(
    x: Tensor | None,
    tangent: Tensor,
    ranks: Tensor,
    weights: RankWeights,
    slope: Tensor,
    second_derivative: Tensor,
    loss_grad: Tensor | None,
    shared: bool,
    of_tangent: Tensor,
    of_x: Tensor,
) -> PoolCotangents:
    """Given the tangent ẋ (B, N, C) and the cotangent of the losses (B,); x (S, N, C) for the weights' gradient only.

    `shared`: x is one set for all samples, whose backward pass the caller takes once. `of_tangent` and `of_x` (B, N, C)
    are memory for the results of these names.
    """
    B, N, C = tangent.shape
    if weights.blocks is not None:
        tangent, ranks, slope, second_derivative = (_padded(t) for t in (tangent, ranks, slope, second_derivative))
        of_code = torch.empty_like(slope)
        if tangent.shape != of_tangent.shape:
            of_tangent, of_x = torch.empty_like(tangent), torch.empty_like(tangent)
        of_x = of_x.flatten()[:0] if shared else of_x
        own = tangent.new_empty(0) if x is None else _padded(x)
        grad = weights.blocks.new_zeros(workers(B), *(weights.blocks.shape if x is not None else (0,)))
        given = tangent.new_zeros(B) if loss_grad is None else loss_grad.contiguous()
        tensors = (own, tangent, ranks, weights.blocks, slope, second_derivative, given, of_tangent, of_x, of_code)
        arrays, grads = _flat(*tensors), [_flat(part)[0] for part in grad]
        run: Any = pool_kernels.pool_backward
        one = len(ranks) == 1
        parallel_for(B, lambda a, b, worker: run(*arrays, grads[worker], N, tangent.shape[2], one, a, b))
        of_weights = None if x is None else grad.sum(dim=0).transpose(0, 1).flatten(1)[:, :C]
        return PoolCotangents(_cut(of_tangent, C), None if shared else _cut(of_x, C), _cut(of_code, C), of_weights)
    each = by_rank(weights.values, ranks)
    of_code = second_derivative * (each * tangent).sum(dim=1)
    if loss_grad is not None:
        of_code = of_code + loss_grad[:, None] * slope
    grad = None
    if x is not None:
        values = slope[:, None] * tangent + of_code[:, None] * x
        sorted_values = torch.empty_like(values).scatter_(1, ranks.expand(B, N, C).long(), values)  # by rank
        grad = sorted_values.sum(dim=0)  # the same bits on every device, unlike a scatter_add
    torch.mul(slope[:, None], each, out=of_tangent)
    return PoolCotangents(of_tangent, None if shared else torch.mul(of_code[:, None], each, out=of_x), of_code, grad)


def by_rank(weights: Tensor, ranks: Tensor) -> Tensor:
    """The weight of every element's rank: weights (N, C) at ranks (S, N, C)."""
    return weights[ranks.long(), torch.arange(ranks.shape[2], device=ranks.device)]


def has_kernel(x: Tensor) -> bool:
    """Whether the CPU kernels take it: they know float32 and float64, and sets that have elements."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and x.numel() > 0


def empty_ranks(x: Tensor) -> Tensor:
    """A buffer for the ranks of (S, N, C), in the narrowest integers: they are kept for the backward pass."""
    kind = torch.uint8 if x.shape[1] <= 256 else torch.uint16 if x.shape[1] <= 65536 else torch.int32
    return torch.empty(x.shape, dtype=kind, device=x.device)


def _ranks(x: Tensor, descending: bool) -> Tensor:
    """The rank of every number of x (S, N, C) in its channel."""
    sources = x.sort(dim=1, descending=descending, stable=True).indices  # torch's other sort moves equal values
    order = torch.arange(x.shape[1], device=x.device)[:, None].expand(x.shape[1:]).expand_as(sources)
    return torch.empty_like(sources).scatter_(1, sources, order)


def _padded(x: Tensor) -> Tensor:
    """Zeros after the channels, which the kernels take `LANES` at a time."""
    missing = -x.shape[-1] % LANES
    return F.pad(x, (0, missing)) if missing else x


def _cut(x: Tensor, C: int) -> Tensor:
    """Without padding, contiguous."""
    return x if x.shape[-1] == C else x[..., :C].contiguous()


def _flat(*tensors: Tensor) -> list[Any]:
    """As flat arrays, which the kernels read and write."""
    return [t.detach().view(-1).numpy() for t in tensors]
