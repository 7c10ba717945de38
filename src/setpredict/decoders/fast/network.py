"""The network of the fast inner step: layers forward, tangents forward, deltas back, gradients of the weights.

A lift takes the elements y (b, N, D) to rows a₁ (b·R, H); then h₁ = relu(a₁), hᵢ = relu(hᵢ₋₁ Wᵢᵀ + bᵢ) up to h_k, and
x = h_k Wᵀ + b. `layers` is W₁, b₁, …, W_k₊₁, b_k₊₁ throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from setpredict.core.threads import workers

ROWS = 2048  # of the hidden layers at once: what they hold then stays in a CPU's cache
LEAST = 256  # rows that are worth a thread


@runtime_checkable
class Lift(Protocol):
    """The first layer, which tells the encoders apart: a row an element, or a row a pair of elements."""

    collects_all: bool
    """Whether `collect` hands on ∂/∂a₁ itself."""

    def inputs(self, features: int) -> int:
        """How many numbers W₁ takes."""
        ...

    def rows(self, size: int) -> int:
        """R for a set of N elements."""
        ...

    def enter(self, y: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
        """a₁ (b·R, H), written to `out`; without bias its derivative in direction y."""
        ...

    def collect(self, delta: Tensor, size: int) -> tuple[Tensor, ...]:
        """What suffices of ∂/∂a₁ (b·R, H) to know ∂/∂y and ∂/∂W₁: rows (b·N, H)."""
        ...

    def leave(self, collected: Sequence[Tensor], weight: Tensor) -> Tensor:
        """∂/∂y, as (b·N, D)."""
        ...

    def add_gradient(self, collected: Sequence[Tensor], y: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        """Add to the gradients of W₁ (whose transpose is contiguous) and b₁."""
        ...


def chunks(B: int, rows: int, like: Tensor) -> list[slice]:
    """Parts of the batch, of about equal size: all of it on a GPU, what fits the cache on a CPU, as many a worker.

    A small batch stays in one piece, which torch's own threads then share.
    """
    count = 1
    if like.device.type == "cpu" and B * rows >= 2 * LEAST:
        share = workers(min(B, B * rows // LEAST))
        count = min(B, share * -(-B * rows // (ROWS * share)))
    return [slice(B * i // count, B * (i + 1) // count) for i in range(count)]


class Room:
    """Tensors to write intermediate results into, again and again: memory that is in the cache is not fetched twice."""

    def __init__(self):
        self.tensors: dict[object, Tensor] = {}

    def take(self, key: object, rows: int, columns: int, like: Tensor) -> Tensor:
        """A (rows, columns) tensor of arbitrary content, the same memory for the same key."""
        size = rows * columns
        have = self.tensors.get(key)
        if have is None or have.numel() < size:
            have = self.tensors[key] = like.new_empty(size)
        return have[:size].view(rows, columns)


def linear(h: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
    """h Wᵀ + b."""
    return torch.mm(h, weight.T, out=out) if bias is None else torch.addmm(bias, h, weight.T, out=out)


def gate(values: Tensor, h: Tensor) -> Tensor:
    """Zero, in place, what ReLU does not let through; h of one sample serves all."""
    if len(values) != len(h):
        each = values.view(-1, *h.shape)
        torch.ops.aten.threshold_backward.grad_input(each, h.expand_as(each), 0, grad_input=each)
        return values
    return torch.ops.aten.threshold_backward.grad_input(values, h, 0, grad_input=values)


def hidden_layers(
    lift: Lift, y: Tensor, layers: Sequence[Tensor], known: Sequence[Tensor | None], room: Room, keep: bool = False
) -> list[Tensor]:
    """h₁ … h_k, those not yet known; all but the first in memory of their own if they are to be kept."""
    hidden: list[Tensor] = []
    rows = len(y) * lift.rows(y.shape[1])
    for i, h in enumerate(known):
        if h is None:
            weight, bias = layers[2 * i], layers[2 * i + 1]
            out = y.new_empty(rows, len(bias)) if keep and i else room.take(("h", i), rows, len(bias), y)
            h = lift.enter(y, weight, bias, out) if i == 0 else linear(hidden[-1], weight, bias, out)
            h.relu_()
        hidden.append(h)
    return hidden


def hidden_tangents(
    lift: Lift, u: Tensor, hidden: Sequence[Tensor], layers: Sequence[Tensor], room: Room
) -> list[Tensor]:
    """The derivatives of h₁ … h_k in direction u of the elements."""
    tangents: list[Tensor] = []
    rows = len(u) * lift.rows(u.shape[1])
    for i, h in enumerate(hidden):
        out = room.take(("t", i), rows, h.shape[1], u)
        ahead = lift.enter(u, layers[0], None, out) if i == 0 else linear(tangents[-1], layers[2 * i], None, out)
        tangents.append(gate(ahead, h))
    return tangents


def way_back(
    seed: Tensor,
    hidden: Sequence[Tensor],
    layers: Sequence[Tensor],
    known: Sequence[Tensor | None],
    room: Room,
    lowest: int = 0,
    keep: Sequence[bool] = (),
) -> list[Any]:
    """∂/∂a₁ … ∂/∂a_k from ∂/∂x (b·R, C), those not yet known, down to index `lowest`; see `keep` for memory."""
    deltas: list[Any] = list(known)
    above = seed
    for i in range(len(hidden) - 1, lowest - 1, -1):
        delta = deltas[i]
        if delta is None:
            weight = layers[2 * i + 2]
            shape = len(seed), weight.shape[1]
            out = seed.new_empty(shape) if keep and keep[i] else room.take(("d", i), *shape, seed)
            delta = gate(torch.mm(above, weight, out=out), hidden[i])
        deltas[i] = above = delta
    return deltas


def add_gradients(
    lift: Lift,
    grads: list[Any],
    seed: Tensor,
    deltas: Sequence[Any],
    collected: Sequence[Tensor],
    below: Sequence[Tensor],
    y: Tensor,
    biases: bool,
) -> None:
    """Add to the gradients of the layers: each layer's delta times what it was given (h and y, or their tangents)."""
    for i, h in enumerate(below):
        above = seed if i == len(below) - 1 else deltas[i + 1]
        grads[2 * i + 2].addmm_(above.T, h)
        if biases:
            grads[2 * i + 3] += above.sum(dim=0)
    lift.add_gradient(collected, y, grads[0], grads[1] if biases else None)
