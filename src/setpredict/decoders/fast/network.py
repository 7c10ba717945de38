"""The network of the fast inner step: layers forward, tangents forward, deltas backward, gradients of the weights.

The first layer takes the elements y (b, N, D) to rows a₁ (b·R, H); then h₁ = relu(a₁), hᵢ = relu(hᵢ₋₁ Wᵢᵀ + bᵢ) up to
h_k, and x = h_k Wᵀ + b. `layers` is W₁, b₁, …, W_k₊₁, b_k₊₁ throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from setpredict.core.batch_parts import THREAD_ROWS
from setpredict.core.threads import workers
from setpredict.decoders.fast.first_layer import FastFirstLayer, gate, linear

CHUNK_ROWS = 2048  # rows of the hidden layers at once: their values then stay in a CPU's cache


def chunks(B: int, rows: int, like: Tensor) -> list[slice]:
    """Parts of the batch of about equal size: all of it on a GPU, what fits the cache on a CPU, as many per worker.

    A small batch stays in one piece, which torch's own threads then share.
    """
    count = 1
    if like.device.type == "cpu" and B * rows >= 2 * THREAD_ROWS:
        share = workers(min(B, B * rows // THREAD_ROWS))
        count = min(B, share * -(-B * rows // (CHUNK_ROWS * share)))
    return [slice(B * i // count, B * (i + 1) // count) for i in range(count)]


class Workspace:
    """Buffers for intermediate results, used again and again: memory in the cache is not fetched twice."""

    def __init__(self):
        self.tensors: dict[object, Tensor] = {}

    def take(self, key: object, rows: int, columns: int, like: Tensor) -> Tensor:
        """A (rows, columns) tensor of arbitrary content, the same memory for the same key."""
        size = rows * columns
        have = self.tensors.get(key)
        if have is None or have.numel() < size:
            have = self.tensors[key] = like.new_empty(size)
        return have[:size].view(rows, columns)


def hidden_layers(
    first: FastFirstLayer,
    y: Tensor,
    layers: Sequence[Tensor],
    known: Sequence[Tensor | None],
    workspace: Workspace,
    keep: bool = False,
) -> list[Tensor]:
    """h₁ … h_k, those not yet known; all but the first in memory of their own if they are to be kept."""
    hidden: list[Tensor] = []
    rows = len(y) * first.layer.rows(y.shape[1])
    for i, h in enumerate(known):
        if h is None:
            weight, bias = layers[2 * i], layers[2 * i + 1]
            out = y.new_empty(rows, len(bias)) if keep and i else workspace.take(("h", i), rows, len(bias), y)
            h = first.hidden(y, weight, bias, out) if i == 0 else linear(hidden[-1], weight, bias, out).relu_()
        hidden.append(h)
    return hidden


def hidden_tangents(
    first: FastFirstLayer, u: Tensor, hidden: Sequence[Tensor], layers: Sequence[Tensor], workspace: Workspace
) -> list[Tensor]:
    """The derivatives of h₁ … h_k in direction u of the elements."""
    tangents: list[Tensor] = []
    rows = len(u) * first.layer.rows(u.shape[1])
    for i, h in enumerate(hidden):
        out = workspace.take(("t", i), rows, h.shape[1], u)
        if i == 0:
            tangents.append(first.tangent(u, layers[0], h, out))
        else:
            tangents.append(gate(linear(tangents[-1], layers[2 * i], None, out), h))
    return tangents


def backward(
    cotangent: Tensor,
    hidden: Sequence[Tensor],
    layers: Sequence[Tensor],
    known: Sequence[Tensor | None],
    workspace: Workspace,
    lowest: int = 0,
    keep: Sequence[bool] = (),
) -> list[Any]:
    """∂/∂h₁, ∂/∂a₂ … ∂/∂a_k from ∂/∂x (b·R, C), those not yet known, down to index `lowest`.

    The first layer takes ∂/∂h₁ itself back through its ReLU. Those of `keep` are in memory of their own.
    """
    deltas: list[Any] = list(known)
    above = cotangent
    for i in range(len(hidden) - 1, lowest - 1, -1):
        delta = deltas[i]
        if delta is None:
            weight = layers[2 * i + 2]
            shape = len(cotangent), weight.shape[1]
            out = cotangent.new_empty(shape) if keep and keep[i] else workspace.take(("d", i), *shape, cotangent)
            delta = torch.mm(above, weight, out=out)
            delta = gate(delta, hidden[i]) if i else delta
        deltas[i] = above = delta
    return deltas


def add_gradients(
    first: FastFirstLayer,
    grads: list[Any],
    cotangent: Tensor,
    deltas: Sequence[Any],
    reduced: Sequence[Tensor],
    below: Sequence[Tensor],
    y: Tensor,
    biases: bool,
) -> None:
    """Add to the gradients of the layers: each layer's delta times its inputs (h and y, or their tangents)."""
    for i, h in enumerate(below):
        above = cotangent if i == len(below) - 1 else deltas[i + 1]
        grads[2 * i + 2].addmm_(above.T, h)
        if biases:
            grads[2 * i + 3] += above.sum(dim=0)
    first.add_gradient(reduced, y, grads[0], grads[1] if biases else None)
