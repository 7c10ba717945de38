"""The layers of the network in the fast inner step: products with their weights, by kernels where these apply."""

from __future__ import annotations

from functools import cached_property
from typing import Any, no_type_check

import torch
from torch import Tensor

from setpredict.core.batch_parts import THREAD_ROWS
from setpredict.core.jit import kernel
from setpredict.core.threads import parallel_for
from setpredict.decoders.fast.lanes import LANES, fill, larger, load, store, zero_unless_less
from setpredict.decoders.fast.products import TALL, add_transposed, multiply, pack

BLOCK = 8 * TALL  # rows at once: they stay in the cache


class Linear:
    """h ↦ h Wᵀ + b, and back. W and b are constants: their gradients are derived by hand."""

    def __init__(self, weight: Tensor, bias: Tensor):
        self.weight, self.bias = weight.detach(), bias.detach()

    def forward(self, h: Tensor, out: Tensor) -> Tensor:
        """h Wᵀ + b, written to `out`."""
        if self._has_kernel(out):
            return _product(h, self._forward, self.bias, None, False, out)
        return torch.addmm(self.bias, h, self.weight.T, out=out)

    def relu(self, h: Tensor, out: Tensor) -> Tensor:
        """relu(h Wᵀ + b), written to `out`."""
        if self._has_kernel(out):
            return _product(h, self._forward, self.bias, None, True, out)
        return self.forward(h, out).relu_()

    def tangent(self, h: Tensor, out: Tensor, gates: Tensor | None = None) -> Tensor:
        """h Wᵀ, where the gates are open."""
        if self._has_kernel(out):
            return _product(h, self._forward, None, gates, False, out)
        torch.mm(h, self.weight.T, out=out)
        return out if gates is None else gate(out, gates)

    def backward(self, delta: Tensor, out: Tensor, gates: Tensor | None = None) -> Tensor:
        """delta · W, where the gates are open."""
        if self._has_kernel(out):
            return _product(delta, self._backward, None, gates, False, out)
        torch.mm(delta, self.weight, out=out)
        return out if gates is None else gate(out, gates)

    def _has_kernel(self, out: Tensor) -> bool:
        return has_row_kernel(out) and self.weight.shape[0] % LANES == self.weight.shape[1] % LANES == 0

    @cached_property
    def _forward(self) -> Tensor:
        return pack(self.weight.T)

    @cached_property
    def _backward(self) -> Tensor:
        return pack(self.weight)


def add_product(grad: Tensor, delta: Tensor, h: Tensor) -> None:
    """Add deltaᵀ h to the gradient of a layer's weights."""
    if has_row_kernel(h) and has_row_kernel(delta) and grad.is_contiguous():
        run: Any = _add_rows_transposed
        run(*(t.detach().view(-1).numpy() for t in (delta, h, grad)), len(h), delta.shape[1], h.shape[1])
    else:
        grad.addmm_(delta.T, h)


def gate(values: Tensor, h: Tensor) -> Tensor:
    """ReLU's backward, in place; h of one sample is shared by all."""
    if len(values) != len(h):
        each = values.view(-1, *h.shape)
        torch.ops.aten.threshold_backward.grad_input(each, h.expand_as(each), 0, grad_input=each)
        return values
    return torch.ops.aten.threshold_backward.grad_input(values, h, 0, grad_input=values)


def has_row_kernel(rows: Tensor) -> bool:
    """Whether the CPU kernels take rows (…, H)."""
    known = rows.device.type == "cpu" and rows.dtype in (torch.float32, torch.float64)
    return known and rows.shape[1] % LANES == 0 and rows.numel() > 0


def _product(
    rows: Tensor, packed: Tensor, start: Tensor | None, gates: Tensor | None, relu: bool, out: Tensor
) -> Tensor:
    start = rows.new_zeros(out.shape[1]) if start is None else start
    tensors = rows, packed, start, rows.new_empty(0) if gates is None else gates, out
    arrays = [t.detach().view(-1).numpy() for t in tensors]
    run: Any = _multiply_rows
    sizes = rows.shape[1], out.shape[1]
    parallel_for(len(rows), lambda first, last, _: run(*arrays, relu, *sizes, first, last), THREAD_ROWS)
    return out


@kernel
@no_type_check
def _multiply_rows(a, packed, start, gates, out, relu, depth, columns, first, last):
    """Rows [first, last) of `multiply`, then ReLU or the gates; the gates of one sample are shared by all."""
    none = fill(a.dtype.type(0))
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        multiply(
            a[begin * depth : end * depth],
            depth,
            packed,
            start,
            out[begin * columns : end * columns],
            end - begin,
            columns,
        )
        if relu:
            for k in range(begin * columns, end * columns, LANES):
                store(out, k, larger(none, load(out, k)))  # the second one is NaN if it is
        elif len(gates):
            at = begin * columns % len(gates)
            for k in range(begin * columns, end * columns, LANES):
                store(out, k, zero_unless_less(none, load(gates, at), load(out, k)))
                at += LANES
                at = 0 if at == len(gates) else at


@kernel
@no_type_check
def _add_rows_transposed(a, b, out, depth, rows, columns):
    """`add_transposed` for many rows of a (depth, rows) and b (depth, columns), a block at a time."""
    size = 4 * BLOCK
    for begin in range(0, depth, size):
        end = min(begin + size, depth)
        add_transposed(
            a[begin * rows : end * rows], b[begin * columns : end * columns], out, end - begin, rows, columns
        )
