"""The fast inner step: L_repr and ∂L_repr/∂Y of the built-in encoders, with a hand-derived double backward.

Forward runs the network and backpropagates once, which gives g = ∂loss/∂y. Backward is given u, the cotangent of g.
Since u·g is the loss's derivative in direction u, it carries u forward as a tangent and takes the gradient of u·g: one
backward pass through the tangent, with the deltas of forward, and one through the network itself, with the cotangent of
the pooling. ReLU's gates and the ranks are constants to both. Samples are processed in chunks whose values stay in the
CPU's cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from setpredict.core.modes import refuse_second_derivatives
from setpredict.core.threads import alone_in_backward, parallel_map, workers
from setpredict.decoders.fast.first_layer import FastFirstLayer
from setpredict.decoders.fast.network import (
    Workspace,
    add_gradients,
    backward,
    chunks,
    hidden_layers,
    hidden_tangents,
    linear_layers,
)
from setpredict.decoders.fast.pool import RankWeights, by_rank, losses, pool, pool_and_loss, pool_backward

SHORT = 64  # a product over so few inputs takes no longer than writing and reading its result would


@dataclass(frozen=True)
class Plan:
    """What does not change from step to step and has no gradient."""

    first: FastFirstLayer
    kind: str  # of the representation loss
    descending: bool
    recompute: bool = False  # keep only sets and ranks for backward
    workspaces: dict[int, Workspace] = field(default_factory=dict)  # one per worker

    def workspace(self, worker: int) -> Workspace:
        return self.workspaces.setdefault(worker, Workspace())

    def keeps_hidden(self, i: int) -> bool:
        """h₁ is recomputed: its products are over the few features of an element."""
        return i > 0 and not self.recompute

    def keeps_delta(self, i: int, k: int, C: int) -> bool:
        """Of ∂/∂h₁ the first layer keeps what is needed; ∂/∂a_k is recomputed if its products are short."""
        return i > 0 and not self.recompute and (i < k - 1 or C > SHORT)


@dataclass
class Chunk:
    """Intermediate values of some samples, forward and backward. What is not kept is None."""

    x: Any  # (s, R, C), the pool's input; s is b, or 1 for a set that all share
    ranks: Any  # (s, R, C)
    hidden: Sequence[Any]  # h₁ … h_k, (s·R, H)
    deltas: Sequence[Any]  # ∂/∂h₁, ∂/∂a₂ … ∂/∂a_k, (b·R, H)
    reduced: Sequence[Any]  # of ∂/∂h₁, by the first layer

    def trimmed(self, plan: Plan, first: bool) -> list[Tensor | None]:
        """What is kept: `first` is False for all but the first chunk of a shared set, whose values are kept once."""
        k = len(self.hidden)
        hidden = [h if first and plan.keeps_hidden(i) else None for i, h in enumerate(self.hidden)]
        C = 0 if self.x is None else self.x.shape[2]
        deltas = [d if plan.keeps_delta(i, k, C) else None for i, d in enumerate(self.deltas)]
        reduced = [None if plan.recompute else c for c in self.reduced]
        x = self.x if first and not plan.recompute else None
        return [x, self.ranks if first else None, *hidden, *deltas, *reduced]

    @classmethod
    def of(cls, kept: Sequence[Tensor | None], k: int) -> Chunk:
        return cls(kept[0], kept[1], kept[2 : 2 + k], kept[2 + k : 2 + 2 * k], kept[2 + 2 * k :])


class FastStep(torch.autograd.Function):
    """(y, z, rank weights (R, C), *layers) ↦ losses (B,) and gradients (B, N, D); y may be (1, N, D), one for all."""

    @staticmethod
    def forward(ctx, plan: Plan, y: Tensor, z: Tensor, weights: Tensor, *layers: Tensor) -> tuple[Tensor, Tensor]:
        step = _Forward(plan, y, z, weights, layers, keep=any(ctx.needs_input_grad))
        parallel_map(len(step.parts), step.part)
        if step.keep:
            ctx.plan, ctx.layers, ctx.parts = plan, len(layers), step.parts
            kept = [tensor for part in step.kept for tensor in part]
            ctx.save_for_backward(y, weights, step.slope, step.second_derivative, *layers, *kept)
            ctx.set_materialize_grads(False)
        return step.loss, step.grad

    @staticmethod
    def backward(ctx, *grads: Tensor | None):
        refuse_second_derivatives()
        loss_grad, u = grads
        y, weights, slope, second_derivative, *rest = ctx.saved_tensors
        layers, kept = rest[: ctx.layers], rest[ctx.layers :]
        length = len(kept) // len(ctx.parts)
        have = [Chunk.of(kept[i : i + length], len(layers) // 2 - 1) for i in range(0, len(kept), length)]
        if len(ctx.parts) > 1:  # on a CPU
            alone_in_backward()
        direction = slope.new_zeros(len(slope), *y.shape[1:]) if u is None else u.contiguous()
        needs = ctx.needs_input_grad
        with torch.autocast(slope.device.type, enabled=False):
            back = _Backward(
                ctx.plan, ctx.parts, have, y, weights, slope, second_derivative, layers, needs[3], any(needs[4:])
            )
            return None, *back.run(direction, loss_grad)


class _Forward:
    """One step's losses and gradients, part by part."""

    def __init__(self, plan: Plan, y: Tensor, z: Tensor, weights: Tensor, layers: Sequence[Tensor], keep: bool):
        self.plan, self.y, self.z, self.layers, self.keep = plan, y, z, linear_layers(layers), keep
        self.weights = RankWeights.of(weights)
        (B, self.C), self.N, self.k = z.shape, y.shape[1], len(self.layers) - 1
        self.rows = plan.first.layer.rows(self.N)
        self.parts = chunks(B, self.rows, z)
        self.loss, self.grad = z.new_empty(B), z.new_empty(B, *y.shape[1:])
        self.slope, self.second_derivative = torch.empty_like(z), torch.empty_like(z)
        self.keeps = [keep and plan.keeps_delta(i, self.k, self.C) for i in range(self.k)]
        self.keeps[0] = keep and not plan.recompute and not plan.first.reduces
        self.kept: list[list[Tensor | None]] = [[] for _ in self.parts]
        self.shared = None
        if len(y) < B:
            hidden, x = self._through_network(y, Workspace())
            self.shared = hidden, x, pool(x, self.weights, plan.descending, keep)

    def part(self, i: int, worker: int) -> None:
        part, plan, workspace = self.parts[i], self.plan, self.plan.workspace(worker)
        z = self.z[part]
        cotangent = workspace.take("cotangent", len(z) * self.rows, self.C, z)
        each = cotangent.view(-1, self.rows, self.C)  # by element
        if self.shared is None:
            hidden, x = self._through_network(self.y[part], workspace)
            found = pool_and_loss(x, z, self.weights, plan.kind, plan.descending, self.keep, each)
            ranks, slope = found.ranks, found.slope
            self.loss[part], self.second_derivative[part] = found.loss, found.second_derivative
        else:
            hidden, x, pooled = self.shared
            self.loss[part], slope, self.second_derivative[part] = losses(pooled.code, z, plan.kind)
            ranks = pooled.ranks
            torch.mul(slope[:, None], pooled.weights, out=each)
        self.slope[part] = slope
        deltas = backward(cotangent, hidden, self.layers, [None] * self.k, workspace, keep=self.keeps)
        reduced = plan.first.reduce(deltas[0], hidden[0], self.N)
        self.grad[part] = plan.first.backward(reduced, self.layers[0].weight).view(len(z), *self.y.shape[1:])
        if self.keep:
            first = i == 0 or self.shared is None
            self.kept[i] = Chunk(x, ranks, hidden, deltas, reduced).trimmed(plan, first)

    def _through_network(self, y: Tensor, workspace: Workspace) -> tuple[list[Tensor], Tensor]:
        """h₁ … h_k and the pool's input x (s, R, C)."""
        plan, rows = self.plan, len(y) * self.rows
        store = self.keep and not plan.recompute
        hidden = hidden_layers(plan.first, y, self.layers, [None] * self.k, workspace, store)
        out = y.new_empty(rows, self.C) if store else workspace.take("x", rows, self.C, y)
        return hidden, self.layers[-1].forward(hidden[-1], out).view(len(y), -1, self.C)


class _Backward:
    """One step's double backward, part by part; each worker adds up gradients of its own."""

    def __init__(self, plan, parts, have, y, weights, slope, second_derivative, layers, weigh: bool, train: bool):
        self.plan: Plan = plan
        self.parts, self.have, self.parameters, self.layers = parts, have, layers, linear_layers(layers)
        self.y, self.slope, self.second_derivative = y, slope, second_derivative
        self.weights = RankWeights.of(weights)
        self.shared = len(y) < len(slope)
        self.weigh, self.train = weigh, train
        self.grad_y = torch.empty_like(y)
        self.code_cotangent = torch.empty_like(slope)  # (B, C), minus the gradient of z
        self.grads = [self._zeros() for _ in range(workers(len(parts)))]
        self.weight_grads: list[Any] = [torch.zeros_like(weights) if weigh else None for _ in self.grads]

    def run(self, u: Tensor, loss_grad: Tensor | None) -> list[Any]:
        """The gradients of y, z, the rank weights and the layers, given those of the gradients and the losses."""
        whole = self._restored(self.y, self.have[0], Workspace()) if self.shared else None

        def part(i: int, worker: int) -> None:
            mine = self.parts[i]
            hidden, x = whole or self._restored(self.y[mine], self.have[i], self.plan.workspace(worker))
            ranks = self.have[0 if self.shared else i].ranks
            given = None if loss_grad is None else loss_grad[mine]
            self._part(mine, u[mine], given, hidden, x, ranks, self.have[i], worker)

        parallel_map(len(self.parts), part)
        if whole is not None:  # backpropagation is linear in its cotangent: one for the sum over the batch is enough
            cotangent = self.code_cotangent.sum(dim=0) * by_rank(self.weights.values, self.have[0].ranks)
            self.grad_y = self._through_network(cotangent, whole[0], self.y, 0)
        layers = [sum(each[1:], each[0]) if self.train else None for each in zip(*self.grads)]
        weights = sum(self.weight_grads[1:], self.weight_grads[0]) if self.weigh else None
        return [self.grad_y, -self.code_cotangent, weights, *layers]

    def _zeros(self) -> list[Any]:
        if not self.train:
            return [None] * len(self.parameters)
        # The first layer adds to the transpose of its gradient: BLAS is slow at products that are only D numbers wide.
        first = torch.zeros_like(self.parameters[0].T, memory_format=torch.contiguous_format).T
        return [first, *[torch.zeros_like(p) for p in self.parameters[1:]]]

    def _restored(self, y: Tensor, have: Chunk, workspace: Workspace) -> tuple[list[Tensor], Any]:
        """h₁ … h_k, and x if the rank weights' gradient needs it: what was kept, and the rest recomputed."""
        hidden = hidden_layers(self.plan.first, y, self.layers, have.hidden, workspace)
        x = have.x
        if x is None and self.weigh:
            R, C = self.weights.values.shape
            x = self.layers[-1].forward(hidden[-1], y.new_empty(len(y) * R, C)).view(-1, R, C)
        return hidden, x if self.weigh else None

    def _part(
        self, part: slice, u: Tensor, loss_grad, hidden: list[Tensor], x, ranks, have: Chunk, worker: int
    ) -> None:
        first, layers, workspace, C = self.plan.first, self.layers, self.plan.workspace(worker), self.slope.shape[1]
        tangents = hidden_tangents(first, u, hidden, layers, workspace)
        out = workspace.take("x", len(tangents[-1]), C, u)
        tangent_x = layers[-1].tangent(tangents[-1], out).view(len(u), -1, C)
        of_tangent, of_x = (workspace.take(name, len(out), C, u).view_as(tangent_x) for name in ("of_tangent", "of_x"))
        known = self.slope[part], self.second_derivative[part], loss_grad
        back = pool_backward(x, tangent_x, ranks, self.weights, *known, self.shared, of_tangent, of_x)
        self.code_cotangent[part] = back.of_code
        if self.weigh:
            self.weight_grads[worker] += back.weights
        if self.train:
            known = have.reduced[0] is not None
            of_tangent = back.of_tangent.flatten(0, 1)
            deltas = backward(of_tangent, hidden, layers, have.deltas, workspace, lowest=int(known))
            reduced = have.reduced if known else first.reduce(deltas[0], hidden[0], u.shape[1])
            add_gradients(first, self.grads[worker], of_tangent, deltas, reduced, tangents, u, biases=False)
        if back.of_x is not None:
            self.grad_y[part] = self._through_network(back.of_x, hidden, self.y[part], worker)

    def _through_network(self, cotangent: Tensor, hidden: list[Tensor], y: Tensor, worker: int) -> Tensor:
        """From ∂/∂x (s, R, C) back to ∂/∂y, adding to the gradients of the layers."""
        cotangent, first = cotangent.flatten(0, 1), self.plan.first
        deltas = backward(cotangent, hidden, self.layers, [None] * len(hidden), self.plan.workspace(worker))
        reduced = first.reduce(deltas[0], hidden[0], y.shape[1])
        if self.train:
            add_gradients(first, self.grads[worker], cotangent, deltas, reduced, hidden, y, biases=True)
        return first.backward(reduced, self.layers[0].weight).view_as(y)
