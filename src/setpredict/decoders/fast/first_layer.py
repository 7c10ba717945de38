"""The first layers of the built-in set encoders in the fast step: values, tangents and gradients, derived by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from setpredict.encoders.first_layer import ElementLayer, FirstLayer, PairLayer

FEW = 16  # columns


@runtime_checkable
class FastFirstLayer(Protocol):
    """What the fast step needs of a first layer, on flattened rows (b·R, H)."""

    layer: FirstLayer
    """The layer of the encoder that it computes."""
    reduces: bool
    """Whether `reduce` returns less than ∂/∂a₁ itself."""

    def forward(self, y: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
        """a₁ (b·R, H), written to `out`; without bias its derivative in direction y."""
        ...

    def reduce(self, delta: Tensor, size: int) -> tuple[Tensor, ...]:
        """What suffices of ∂/∂a₁ (b·R, H) to know ∂/∂y and ∂/∂W₁: rows (b·N, H)."""
        ...

    def backward(self, reduced: Sequence[Tensor], weight: Tensor) -> Tensor:
        """∂/∂y, as (b·N, D)."""
        ...

    def add_gradient(self, reduced: Sequence[Tensor], y: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        """Add to the gradients of W₁ (whose transpose is contiguous) and b₁."""
        ...


class FastElementLayer:
    """a₁ = y W₁ᵀ + b₁."""

    layer, reduces = ElementLayer(), False

    def forward(self, y: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
        return linear(y.flatten(0, 1), weight, bias, out)  # (b·N, H)

    def reduce(self, delta: Tensor, size: int) -> tuple[Tensor, ...]:
        return (delta,)

    def backward(self, reduced: Sequence[Tensor], weight: Tensor) -> Tensor:
        return _narrow_product(reduced[0], weight.T.contiguous())

    def add_gradient(self, reduced: Sequence[Tensor], y: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        weight.T.addmm_(y.flatten(0, 1).T, reduced[0])
        if bias is not None:
            bias += reduced[0].sum(dim=0)


class FastPairLayer:
    """a₁[i, j] = y_i Lᵀ + y_j Rᵀ + b₁ with W₁ = [L, R]. Backward, only the sums over j and over i matter."""

    layer, reduces = PairLayer(), True

    def forward(self, y: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
        left, right = weight.chunk(2, dim=1)
        b, N, _ = y.shape
        y = y.flatten(0, 1)
        first, second = linear(y, left, bias, None).view(b, N, 1, -1), linear(y, right, None, None).view(b, 1, N, -1)
        torch.add(first, second, out=out.view(b, N, N, -1))
        return out

    def reduce(self, delta: Tensor, size: int) -> tuple[Tensor, ...]:
        pairs = delta.view(-1, size, size, delta.shape[1])  # (b, N, N, H)
        return pairs.sum(dim=2).flatten(0, 1), pairs.sum(dim=1).flatten(0, 1)

    def backward(self, reduced: Sequence[Tensor], weight: Tensor) -> Tensor:
        left, right = weight.chunk(2, dim=1)
        return torch.mm(reduced[0], left).addmm_(reduced[1], right)

    def add_gradient(self, reduced: Sequence[Tensor], y: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        y = y.flatten(0, 1)
        for part, half in zip(weight.T.chunk(2, dim=0), reduced):
            part.addmm_(y.T, half)
        if bias is not None:
            bias += reduced[0].sum(dim=0)


def _narrow_product(rows: Tensor, weight: Tensor) -> Tensor:
    """rows (M, H) times weight (D, H) transposed, where D is small; a row's result does not depend on the other rows.

    Computed as a product of M columns, which is six times as fast as one that is D numbers wide. BLAS computes the
    last columns differently if their number is no multiple of 4, or if there are few, so those get a product of
    `FEW` columns of their own.
    """
    M, rest = len(rows), len(rows) % 4
    if M < FEW:
        padded = torch.cat([rows, rows.new_zeros(FEW - M, rows.shape[1])])
        return torch.mm(weight, padded.T).T[:M]
    if not rest:
        return torch.mm(weight, rows.T).T
    last = torch.mm(weight, rows[M - FEW :].T)[:, FEW - rest :]
    return torch.cat([torch.mm(weight, rows[: M - rest].T), last], dim=1).T


def linear(h: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
    """h Wᵀ + b."""
    return torch.mm(h, weight.T, out=out) if bias is None else torch.addmm(bias, h, weight.T, out=out)
