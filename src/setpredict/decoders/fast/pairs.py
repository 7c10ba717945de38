"""The first layer of the relation network in the fast inner step: a row a pair, from sums of two rows an element."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from setpredict.decoders.fast.network import linear


class PairLift:
    """a₁[i, j] = y_i Lᵀ + y_j Rᵀ + b₁ with W₁ = [L, R]. Back, only the sums over j and over i matter."""

    collects_all = False

    def inputs(self, features: int) -> int:
        return 2 * features

    def rows(self, size: int) -> int:
        return size * size

    def enter(self, y: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
        left, right = weight.chunk(2, dim=1)
        b, N, _ = y.shape
        y = y.flatten(0, 1)
        first, second = linear(y, left, bias, None).view(b, N, 1, -1), linear(y, right, None, None).view(b, 1, N, -1)
        torch.add(first, second, out=out.view(b, N, N, -1))
        return out

    def collect(self, delta: Tensor, size: int) -> tuple[Tensor, ...]:
        pairs = delta.view(-1, size, size, delta.shape[1])  # (b, N, N, H)
        return pairs.sum(dim=2).flatten(0, 1), pairs.sum(dim=1).flatten(0, 1)

    def leave(self, collected: Sequence[Tensor], weight: Tensor) -> Tensor:
        left, right = weight.chunk(2, dim=1)
        return torch.mm(collected[0], left).addmm_(collected[1], right)

    def add_gradient(self, collected: Sequence[Tensor], y: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        y = y.flatten(0, 1)
        for part, half in zip(weight.T.chunk(2, dim=0), collected):
            part.addmm_(y.T, half)
        if bias is not None:
            bias += collected[0].sum(dim=0)
