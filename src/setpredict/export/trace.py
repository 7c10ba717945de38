"""A model as a graph of tensor operations, for batches of any size.

`torch.export` alone cannot follow the gradients inside the inner loop. `make_fx` can: it records every operation, those
of the backward pass included. Its graph is one that `torch.export` takes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import count

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.fx.experimental.proxy_tensor import make_fx

from setpredict.core.batch_parts import FEWEST_ROWS
from setpredict.core.loops import Shape
from setpredict.core.modes import evaluating, tracing

aten = torch.ops.aten


def trace(model: nn.Module, compute: Callable[..., tuple[Tensor, ...]], example: Sequence[Tensor]) -> ExportedProgram:
    """Record what a function computes with a model in evaluation mode; the first axis of all inputs is the batch.

    Args:
        model: The model; its parameters and buffers become constants.
        compute: From the inputs to outputs.
        example: One sample of every input, (1, …).
    """
    inputs = tuple(x.repeat(_traced_batch(example), *[1] * (x.ndim - 1)) for x in example)
    with evaluating(model), torch.no_grad(), tracing():
        recorded = make_fx(compute, decomposition_table=BACKWARD, tracing_mode="symbolic", _allow_non_fake_inputs=True)(
            *inputs
        )
    recorded.graph.eliminate_dead_code()
    recorded.recompile()
    shapes = tuple({0: Dim("batch")} for _ in inputs)
    return torch.export.export(recorded, inputs, dynamic_shapes=shapes)


def _traced_batch(example: Sequence[Tensor]) -> int:
    """A batch size like no other axis, which would be taken for the same, and large enough not to be padded."""
    taken = {size for x in example for size in x.shape[1:]}
    return next(size for size in count(FEWEST_ROWS + 1) if size not in taken)


def _select_backward(grad: Tensor, sizes: Shape, dim: int, index: int) -> Tensor:
    """The gradient of x.select(dim, index): zeros around it."""
    size = int(sizes[dim])
    return _pad(grad.unsqueeze(dim), sizes, dim, index % size, size - 1 - index % size)


def _slice_backward(grad: Tensor, sizes: Shape, dim: int, start: int, end: int, step: int) -> Tensor:
    """The gradient of x[start:end] along an axis: zeros before and after it."""
    if start in (None, 0) and end in (None, sys.maxsize):  # the complete axis, such as that of the batch
        return grad
    if step != 1:
        raise NotImplementedError(f"the gradient of a slice with step {step}")
    size = int(sizes[dim])
    first, last, _ = slice(start, end).indices(size)
    return _pad(grad, sizes, dim, first, size - last)


def _pad(x: Tensor, sizes: Shape, dim: int, before: int, after: int) -> Tensor:
    axes_behind = len(sizes) - 1 - dim % len(sizes)
    return aten.constant_pad_nd.default(x, [0, 0] * axes_behind + [before, after], 0.0)


BACKWARD = {aten.select_backward.default: _select_backward, aten.slice_backward.default: _slice_backward}
"""Backward passes as operations that ONNX has; torch's own decompositions of them become large index tables."""
