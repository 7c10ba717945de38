"""The network of the fast inner step: layers forward, tangents forward, deltas backward, gradients of the weights.

The first layer takes the elements y (b, N, D) to rows a₁ (b·R, H); then h₁ = relu(a₁), hᵢ = relu(hᵢ₋₁ Wᵢᵀ + bᵢ) up to
h_k, and x = h_k Wᵀ + b. `layers` are k + 1 layers throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from setpredict.core.batch_parts import THREAD_ROWS
from setpredict.core.threads import workers
from setpredict.decoders.fast.first_layer import FastFirstLayer
from setpredict.decoders.fast.linear import Linear, add_product

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


def linear_layers(parameters: Sequence[Tensor]) -> list[Linear]:
    """The layers of the weights and biases W₁, b₁, …, W_k₊₁, b_k₊₁."""
    return [Linear(*parameters[i : i + 2]) for i in range(0, len(parameters), 2)]


def hidden_layers(
    first: FastFirstLayer,
    y: Tensor,
    layers: Sequence[Linear],
    known: Sequence[Tensor | None],
    workspace: Workspace,
    keep: bool = False,
) -> list[Tensor]:
    """h₁ … h_k, those not yet known; all but the first in memory of their own if they are to be kept."""
    hidden: list[Tensor] = []
    rows = len(y) * first.layer.rows(y.shape[1])
    for i, h in enumerate(known):
        if h is None:
            layer, H = layers[i], len(layers[i].bias)
            out = y.new_empty(rows, H) if keep and i else workspace.take(("h", i), rows, H, y)
            h = layer.relu(hidden[-1], out) if i else first.hidden(y, layer.weight, layer.bias, out)
        hidden.append(h)
    return hidden


def hidden_tangents(
    first: FastFirstLayer, u: Tensor, hidden: Sequence[Tensor], layers: Sequence[Linear], workspace: Workspace
) -> list[Tensor]:
    """The derivatives of h₁ … h_k in direction u of the elements."""
    tangents: list[Tensor] = []
    rows = len(u) * first.layer.rows(u.shape[1])
    for i, h in enumerate(hidden):
        out = workspace.take(("t", i), rows, h.shape[1], u)
        if i == 0:
            tangents.append(first.tangent(u, layers[0].weight, h, out))
        else:
            tangents.append(layers[i].tangent(tangents[-1], out, h))
    return tangents


def backward(
    cotangent: Tensor,
    hidden: Sequence[Tensor],
    layers: Sequence[Linear],
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
            shape = len(cotangent), layers[i + 1].weight.shape[1]
            out = cotangent.new_empty(shape) if keep and keep[i] else workspace.take(("d", i), *shape, cotangent)
            delta = layers[i + 1].backward(above, out, hidden[i] if i else None)
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
        add_product(grads[2 * i + 2], above, h)
        if biases:
            grads[2 * i + 3] += above.sum(dim=0)
    first.add_gradient(reduced, y, grads[0], grads[1] if biases else None)
