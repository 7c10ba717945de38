"""The first layers of the built-in set encoders in the fast step: values, tangents and gradients, derived by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from setpredict.core.threads import parallel_for
from setpredict.decoders.fast import pair_kernels
from setpredict.decoders.fast.linear import Linear, gate, has_row_kernel
from setpredict.encoders.first_layer import ElementLayer, FirstLayer, PairLayer

FEW = 16  # columns


@runtime_checkable
class FastFirstLayer(Protocol):
    """What the fast step needs of a first layer, on flattened rows (b·R, H)."""

    layer: FirstLayer
    """The layer of the encoder that it computes."""
    reduces: bool
    """Whether `reduce` returns less than ∂/∂a₁ itself."""

    def stacked(self, weight: Tensor) -> Tensor:
        """W₁ as the matrix of one product with the elements, (H or more, D)."""
        ...

    def unstacked(self, matrix: Tensor) -> Tensor:
        """The inverse of `stacked`."""
        ...

    def hidden(self, y: Tensor, weight: Tensor, bias: Tensor, out: Tensor) -> Tensor:
        """h₁ = relu(a₁) (b·R, H), written to `out`."""
        ...

    def tangent(self, u: Tensor, weight: Tensor, h: Tensor, out: Tensor) -> Tensor:
        """The derivative of h₁ in direction u of the elements, written to `out`."""
        ...

    def reduce(self, delta: Tensor, h: Tensor, size: int) -> tuple[Tensor, ...]:
        """What suffices of ∂/∂h₁ (b·R, H) to know ∂/∂y and ∂/∂W₁: rows for the elements. `delta` may be overwritten."""
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

    def stacked(self, weight: Tensor) -> Tensor:
        return weight

    def unstacked(self, matrix: Tensor) -> Tensor:
        return matrix

    def hidden(self, y: Tensor, weight: Tensor, bias: Tensor, out: Tensor) -> Tensor:
        return Linear(weight, bias).relu(y.flatten(0, 1), out)

    def tangent(self, u: Tensor, weight: Tensor, h: Tensor, out: Tensor) -> Tensor:
        return gate(torch.mm(u.flatten(0, 1), weight.T, out=out), h)

    def reduce(self, delta: Tensor, h: Tensor, size: int) -> tuple[Tensor, ...]:
        return (gate(delta, h),)

    def backward(self, reduced: Sequence[Tensor], weight: Tensor) -> Tensor:
        return _narrow_product(reduced[0], weight.T.contiguous())

    def add_gradient(self, reduced: Sequence[Tensor], y: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        weight.T.addmm_(y.flatten(0, 1).T, reduced[0])
        if bias is not None:
            bias += reduced[0].sum(dim=0)


class FastPairLayer:
    """a₁[i, j] = y_i Lᵀ + y_j Rᵀ + b₁ with W₁ = [L, R]. Backward, only the sums over j and over i matter.

    They are side by side in rows (b·N, 2H), as y_i Lᵀ and y_i Rᵀ are forward.
    """

    layer, reduces = PairLayer(), True

    def stacked(self, weight: Tensor) -> Tensor:
        """[L, R] (H, 2D) with R below L, (2H, D)."""
        return torch.cat(weight.chunk(2, dim=1))

    def unstacked(self, matrix: Tensor) -> Tensor:
        return torch.cat(matrix.chunk(2), dim=1)

    def hidden(self, y: Tensor, weight: Tensor, bias: Tensor, out: Tensor) -> Tensor:
        b, N, _ = y.shape
        halves = torch.mm(y.flatten(0, 1), self.stacked(weight).T)
        if has_row_kernel(out):
            return _run(pair_kernels.add_pairs, b, N, halves, bias.contiguous(), out=out)
        left, right = _by_pairs(halves, b, N)
        torch.add(left + bias, right, out=out.view(b, N, N, -1))
        return out.relu_()

    def tangent(self, u: Tensor, weight: Tensor, h: Tensor, out: Tensor) -> Tensor:
        b, N, _ = u.shape
        halves = torch.mm(u.flatten(0, 1), self.stacked(weight).T)
        if has_row_kernel(out):
            return _run(pair_kernels.add_gated_pairs, b, N, halves, h, out=out)
        torch.add(*_by_pairs(halves, b, N), out=out.view(b, N, N, -1))
        return gate(out, h)

    def reduce(self, delta: Tensor, h: Tensor, size: int) -> tuple[Tensor, ...]:
        b, H = len(delta) // size**2, delta.shape[1]
        if has_row_kernel(delta):
            return (_run(pair_kernels.sum_gated_pairs, b, size, delta, h, out=delta.new_empty(b * size, 2 * H)),)
        pairs = gate(delta, h).view(b, size, size, H)
        return (torch.cat([pairs.sum(dim=2), pairs.sum(dim=1)], dim=2).flatten(0, 1),)

    def backward(self, reduced: Sequence[Tensor], weight: Tensor) -> Tensor:
        return _narrow_product(reduced[0], self.stacked(weight).T.contiguous())

    def add_gradient(self, reduced: Sequence[Tensor], y: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        y = y.flatten(0, 1)
        for part, half in zip(weight.T.chunk(2, dim=0), reduced[0].chunk(2, dim=1)):
            part.addmm_(y.T, half)
        if bias is not None:
            bias += reduced[0][:, : len(weight)].sum(dim=0)


def _by_pairs(halves: Tensor, b: int, N: int) -> tuple[Tensor, Tensor]:
    """Left and right (b·N, 2H), to be added for all pairs."""
    left, right = halves.view(b, N, 2, -1).unbind(dim=2)
    return left[:, :, None], right[:, None]


def _run(kernel: Any, b: int, N: int, *tensors: Tensor, out: Tensor) -> Tensor:
    """Run a kernel of `pair_kernels` on a batch of b sets; the last array is its result."""
    arrays = [t.detach().view(-1).numpy() for t in (*tensors, out)]
    H = tensors[1].shape[-1]
    parallel_for(b, lambda first, last, _: kernel(*arrays, N, H, first, last))
    return out


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
