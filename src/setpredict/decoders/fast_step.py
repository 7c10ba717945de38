"""The fast inner step: L_repr and ∂L_repr/∂Y of the built-in encoders, with a hand-derived double backward.

Forward runs the network and goes back once, which gives g = ∂loss/∂y. Backward is given u, the cotangent of g. Since
u·g is the loss's derivative in direction u, it carries u forward as a tangent and takes the gradient of u·g: one way
back through the tangent, with the deltas that forward had, and one through the network itself, with the pooling's seed.
ReLU's gates and the ranks are constants to both. Samples go through in chunks whose values stay in the CPU's cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from setpredict.decoders.fast_network import (
    Lift,
    Room,
    add_gradients,
    chunks,
    hidden_layers,
    hidden_tangents,
    linear,
    way_back,
)
from setpredict.decoders.fast_pool import by_rank, losses, pool, pool_back

SHORT = 64  # a product over so few inputs takes no longer than writing and reading its result would


@dataclass(frozen=True)
class Plan:
    """What does not change from step to step and has no gradient."""

    lift: Lift
    kind: str  # of the representation loss
    descending: bool
    recompute: bool = False  # keep only sets and ranks for backward
    room: Room = field(default_factory=Room)

    def keeps_hidden(self, i: int) -> bool:
        """h₁ is computed again: its products are over the few features of an element."""
        return i > 0 and not self.recompute

    def keeps_delta(self, i: int, k: int, C: int) -> bool:
        """Of ∂/∂a₁ the lift keeps what is needed; ∂/∂a_k is computed again if its products are short."""
        return i > 0 and not self.recompute and (i < k - 1 or C > SHORT)


@dataclass
class Chunk:
    """Some samples on their way through the network and back. What is not kept is None, not a tensor."""

    x: Any  # (s, R, C), the pool's input; s is b, or 1 for a set that all share
    ranks: Any  # (s, R, C)
    hidden: Sequence[Any]  # h₁ … h_k, (s·R, H)
    deltas: Sequence[Any]  # ∂/∂a₁ … ∂/∂a_k, (b·R, H)
    collected: Sequence[Any]  # of ∂/∂a₁, by the lift

    def trimmed(self, plan: Plan, first: bool) -> list[Tensor | None]:
        """What is kept: `first` is False for all but the first chunk of a shared set, whose values are kept once."""
        k = len(self.hidden)
        hidden = [h if first and plan.keeps_hidden(i) else None for i, h in enumerate(self.hidden)]
        C = 0 if self.x is None else self.x.shape[2]
        deltas = [d if plan.keeps_delta(i, k, C) else None for i, d in enumerate(self.deltas)]
        collected = [None if plan.recompute else c for c in self.collected]
        x = self.x if first and not plan.recompute else None
        return [x, self.ranks if first else None, *hidden, *deltas, *collected]

    @classmethod
    def of(cls, kept: Sequence[Tensor | None], k: int) -> Chunk:
        return cls(kept[0], kept[1], kept[2 : 2 + k], kept[2 + k : 2 + 2 * k], kept[2 + 2 * k :])


class FastStep(torch.autograd.Function):
    """(y, z, rank weights (C, R), *layers) ↦ losses (B,) and gradients (B, N, D); y may be (1, N, D), one for all."""

    @staticmethod
    def forward(ctx, plan: Plan, y: Tensor, z: Tensor, weights: Tensor, *layers: Tensor) -> tuple[Tensor, Tensor]:
        (B, C), N, k = z.shape, y.shape[1], len(layers) // 2 - 1
        shared = len(y) < B
        loss, grad = z.new_empty(B), z.new_empty(B, *y.shape[1:])
        slope, curve = torch.empty_like(z), torch.empty_like(z)
        keep = any(ctx.needs_input_grad)
        kept: list[Tensor | None] = []
        keeps = [keep and plan.keeps_delta(i, k, C) for i in range(k)]
        keeps[0] = keep and not plan.recompute and plan.lift.collects_all
        lift, room, rows = plan.lift, plan.room, plan.lift.rows(N)
        hidden, x, pooled = [], None, None
        for part in chunks(B, rows, z):
            first = pooled is None or not shared
            if pooled is None or not shared:
                mine = y if shared else y[part]
                hidden = hidden_layers(lift, mine, layers, [None] * k, room, keep and not plan.recompute)
                out = z.new_empty(len(mine) * rows, C) if keep else room.take("x", len(mine) * rows, C, z)
                x = linear(hidden[-1], layers[-2], layers[-1], out).view(-1, rows, C)
                pooled = pool(x, weights, plan.descending, keep)
            loss[part], slope[part], curve[part] = losses(pooled.code, z[part], plan.kind)
            seed = room.take("seed", (part.stop - part.start) * rows, C, z)
            torch.mul(slope[part, None], pooled.weights, out=seed.view(-1, rows, C))
            deltas = way_back(seed, hidden, layers, [None] * k, room, keep=keeps)
            collected = lift.collect(deltas[0], N)
            grad[part] = lift.leave(collected, layers[0]).view(-1, *y.shape[1:])
            if keep:
                kept += Chunk(x, pooled.ranks, hidden, deltas, collected).trimmed(plan, first)
        if keep:
            ctx.plan, ctx.layers = plan, len(layers)
            ctx.save_for_backward(y, weights, slope, curve, *layers, *kept)
            ctx.set_materialize_grads(False)
        return loss, grad

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads: Tensor | None):
        loss_grad, u = grads
        y, weights, slope, curve, *rest = ctx.saved_tensors
        needs = ctx.needs_input_grad
        direction = slope.new_zeros(len(slope), *y.shape[1:]) if u is None else u.contiguous()
        with torch.autocast(slope.device.type, enabled=False):
            back = _Backward(ctx.plan, y, weights, slope, curve, rest[: ctx.layers], needs[3], any(needs[4:]))
            back.run(rest[ctx.layers :], direction, loss_grad)
        return None, back.grad_y, -back.seeds, back.grad_weights, *back.grads


class _Backward:
    """One step's double backward: chunk by chunk, adding up the gradients."""

    def __init__(self, plan, y, weights, slope, curve, layers, weigh: bool, train: bool):
        self.plan: Plan = plan
        self.y, self.weights, self.slope, self.curve, self.layers = y, weights, slope, curve, layers
        self.shared = len(y) < len(slope)
        self.train = train
        self.grad_y = torch.empty_like(y)
        self.seeds = torch.empty_like(slope)  # (B, C), minus the gradient of z
        self.grad_weights = torch.zeros_like(weights) if weigh else None
        self.grads: list[Any] = [torch.zeros_like(p) if train else None for p in layers]
        if train:  # the lift adds to the transpose: BLAS is slow at products that are only D numbers wide
            self.grads[0] = torch.zeros_like(layers[0].T, memory_format=torch.contiguous_format).T

    def run(self, kept: Sequence[Tensor | None], u: Tensor, loss_grad: Tensor | None) -> None:
        parts = chunks(len(self.slope), self.plan.lift.rows(self.y.shape[1]), self.slope)
        length, k = len(kept) // len(parts), len(self.layers) // 2 - 1
        hidden: list[Tensor] = []
        x: Any = None
        ranks: Any = None
        for i, part in enumerate(parts):
            chunk = Chunk.of(kept[i * length : (i + 1) * length], k)
            if i == 0 or not self.shared:
                y = self.y if self.shared else self.y[part]
                hidden, ranks = hidden_layers(self.plan.lift, y, self.layers, chunk.hidden, self.plan.room), chunk.ranks
                x = self._pool_input(chunk.x, hidden) if self.grad_weights is not None else None
            self._part(part, u[part], None if loss_grad is None else loss_grad[part], hidden, x, ranks, chunk)
        if self.shared:  # the way back is linear in its seed: one for the sum over the batch is enough
            seed = self.seeds.sum(dim=0) * by_rank(self.weights, ranks)
            self.grad_y = self._through_network(seed, hidden, self.y)

    def _pool_input(self, x: Tensor | None, hidden: list[Tensor]) -> Tensor:
        if x is not None:
            return x
        return linear(hidden[-1], self.layers[-2], self.layers[-1], None).view(
            -1, self.weights.shape[1], len(self.weights)
        )

    def _part(self, part: slice, u: Tensor, loss_grad, hidden: list[Tensor], x, ranks, chunk: Chunk) -> None:
        lift, layers, room, C = self.plan.lift, self.layers, self.plan.room, len(self.weights)
        tangents = hidden_tangents(lift, u, hidden, layers, room)
        out = room.take("x", len(tangents[-1]), C, u)
        tangent_x = linear(tangents[-1], layers[-2], None, out).view(len(u), -1, C)
        back = pool_back(x, tangent_x, ranks, self.weights, self.slope[part], self.curve[part], loss_grad, self.shared)
        self.seeds[part] = back.seed
        if self.grad_weights is not None and back.weights is not None:
            self.grad_weights += back.weights
        if self.train:
            have = chunk.collected[0] is not None
            slope_x = back.slope_x.flatten(0, 1)
            deltas = way_back(slope_x, hidden, layers, chunk.deltas, room, lowest=int(have))
            collected = chunk.collected if have else lift.collect(deltas[0], u.shape[1])
            add_gradients(lift, self.grads, slope_x, deltas, collected, tangents, u, biases=False)
        if back.seed_x is not None:
            self.grad_y[part] = self._through_network(back.seed_x, hidden, self.y[part])

    def _through_network(self, seed: Tensor, hidden: list[Tensor], y: Tensor) -> Tensor:
        """From ∂/∂x (s, R, C) back to ∂/∂y, adding to the gradients of the layers on the way."""
        seed = seed.flatten(0, 1)
        deltas = way_back(seed, hidden, self.layers, [None] * len(hidden), self.plan.room)
        collected = self.plan.lift.collect(deltas[0], y.shape[1])
        if self.train:
            add_gradients(self.plan.lift, self.grads, seed, deltas, collected, hidden, y, biases=True)
        return self.plan.lift.leave(collected, self.layers[0]).view_as(y)
