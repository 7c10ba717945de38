"""The first layer of a set encoder: rows of hidden units, one per element or one per ordered pair of elements."""

from __future__ import annotations

from typing import Protocol

from jaxtyping import Bool, Float
from torch import Tensor, nn


class FirstLayer(Protocol):
    """From N elements with C inputs to R rows of H hidden units; what tells the built-in set encoders apart."""

    def inputs(self, features: int) -> int:
        """How many inputs the linear layer has, for elements with that many features."""
        ...

    def rows(self, size: int) -> int:
        """R for a set of N elements."""
        ...

    def __call__(self, layer: nn.Linear, inputs: Float[Tensor, "B N C"]) -> Float[Tensor, "B R H"]:
        """The rows of hidden units, before the activation."""
        ...

    def combine(self, mask: Tensor) -> Tensor:
        """The mask or weight of every row, (B, R), from those of the elements, (B, N)."""
        ...


class ElementLayer:
    """One row per element: a[i] = W y_i + b."""

    def inputs(self, features: int) -> int:
        return features

    def rows(self, size: int) -> int:
        return size

    def __call__(self, layer: nn.Linear, inputs: Float[Tensor, "B N C"]) -> Float[Tensor, "B N H"]:
        return layer(inputs)

    def combine(self, mask: Tensor) -> Tensor:
        return mask


class PairLayer:
    """One row per ordered pair: a[i, j] = W [y_i, y_j] + b.

    It is linear in the pair, so each half is computed once per element: W [y_i, y_j] = L y_i + R y_j.
    """

    def inputs(self, features: int) -> int:
        return 2 * features

    def rows(self, size: int) -> int:
        return size * size

    def __call__(self, layer: nn.Linear, inputs: Float[Tensor, "B N C"]) -> Float[Tensor, "B R H"]:
        left, right = layer.weight.chunk(2, dim=1)
        pairs = (inputs @ left.T + layer.bias)[:, :, None] + (inputs @ right.T)[:, None, :]  # (B, N, N, H)
        return pairs.flatten(1, 2)

    def combine(self, mask: Bool[Tensor, "B N"] | Float[Tensor, "B N"]) -> Tensor:
        return (mask[:, :, None] * mask[:, None, :]).flatten(1)  # the product of bools is "and"
