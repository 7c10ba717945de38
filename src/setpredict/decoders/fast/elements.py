"""The first layer of the MLP set encoder in the fast inner step: a row an element."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from setpredict.decoders.fast.network import linear


class ElementLift:
    """a₁ = y W₁ᵀ + b₁."""

    collects_all = True

    def inputs(self, features: int) -> int:
        return features

    def rows(self, size: int) -> int:
        return size

    def enter(self, y: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
        return linear(y.flatten(0, 1), weight, bias, out)  # (b·N, H)

    def collect(self, delta: Tensor, size: int) -> tuple[Tensor, ...]:
        return (delta,)

    def leave(self, collected: Sequence[Tensor], weight: Tensor) -> Tensor:
        return torch.mm(weight.T.contiguous(), collected[0].T).T  # six times as fast as a product D numbers wide

    def add_gradient(self, collected: Sequence[Tensor], y: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        weight.T.addmm_(y.flatten(0, 1).T, collected[0])
        if bias is not None:
            bias += collected[0].sum(dim=0)
