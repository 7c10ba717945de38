"""The fast inner step of encoders with one hidden layer, by kernels that take one sample after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from setpredict.core.batch_parts import THREAD_ROWS
from setpredict.core.modes import refuse_second_derivatives
from setpredict.core.threads import alone_in_backward, parallel_for, workers
from setpredict.decoders.fast import sample_kernels
from setpredict.decoders.fast.first_layer import FastFirstLayer
from setpredict.decoders.fast.lanes import LANES
from setpredict.decoders.fast.pool import empty_ranks, has_kernel
from setpredict.decoders.fast.products import pack
from setpredict.decoders.fast.sample_kernels import Grads, Kept, Objective, Sizes, Weights

CACHE = 2**20  # bytes: the values of one sample should stay in the cache of a core


def has_sample_kernel(rank_weights: Tensor, layers: Sequence[Tensor]) -> bool:
    """Whether the kernels apply: one hidden layer, whole vectors, and a sample whose values fit into the cache."""
    if len(layers) != 4 or not has_kernel(rank_weights):
        return False
    (R, C), H = rank_weights.shape, len(layers[1])
    return H % LANES == 0 and C % LANES == 0 and R * (H + C) * rank_weights.element_size() <= CACHE


class SampleKernels:
    """The kernels for sets of N elements, with the weights in the order in which they read them."""

    def __init__(
        self, first: FastFirstLayer, kind: str, descending: bool, N: int, rank_weights: Tensor, layers: Sequence[Tensor]
    ):
        first_weight, first_bias, last_weight, last_bias = (t.detach() for t in layers)
        stacked = first.stacked(first_weight)  # (wide, D)
        (wide, D), (C, H), R = stacked.shape, last_weight.shape, len(rank_weights)
        self.first, self.min_items = first, -(-THREAD_ROWS // R)
        self.sizes = Sizes(N, D, R, H, C, wide)
        forward = pack(stacked.T), first_bias, pack(stacked), pack(last_weight.T), last_bias, pack(last_weight)
        self.weights = Weights(*_flat(*forward, pack(rank_weights)))
        self.objective = Objective(1 / C, float("inf") if kind == "squared" else 1.0, descending)

    def forward(
        self, y: Tensor, z: Tensor, keep: Sequence[str] = (), gradients: bool = True
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Losses (B,), gradients (B, N, D) if they are wanted, and the fields of `Kept`; y may be one set for all.

        Of the sets' x, ranks and reduced, those named in `keep` are kept; the others are empty.
        """
        N, D, R, _, C, wide = self.sizes
        (S, B), y, z = (len(y), len(z)), y.contiguous(), z.contiguous()
        loss, grad = z.new_empty(B), z.new_empty(B if gradients else 0, N, D)
        x = z.new_empty(S if "x" in keep else 0, R, C)
        ranks = empty_ranks(z.new_empty(()).expand(S if "ranks" in keep else 0, R, C))
        reduced = z.new_empty(B if "reduced" in keep else 0, N, wide)
        kept = [x, ranks, reduced, torch.empty_like(z), torch.empty_like(z)]
        arrays = *_flat(y, z), self.weights, self.sizes, self.objective, Kept(*_flat(*kept)), *_flat(loss, grad)
        run: Any = sample_kernels.forward
        parallel_for(B, lambda first, last, _: run(*arrays, first, last), self.min_items)
        return loss, grad, kept

    def backward(
        self, y: Tensor, u: Tensor, loss_grad: Tensor, kept: Sequence[Tensor], weigh: bool, train: bool
    ) -> list[Tensor | None]:
        """The gradients of y, z, the rank weights (with `weigh`) and the layers (with `train`)."""
        N, D, R, H, C, wide = self.sizes
        B, count = len(u), workers(len(u))
        of_code, shared = u.new_empty(B, C), len(y) < B
        grad_y = u.new_zeros(count, N, D) if shared else torch.empty_like(u)
        shapes = [(D, wide), (wide,), (C, H), (C,)] if train else [(0,)] * 4
        grads = [u.new_zeros(count, *shape) for shape in (*shapes, (C // LANES, R, LANES) if weigh else (0,))]
        given = _flat(y.contiguous(), u, loss_grad.contiguous())
        given = *given, self.weights, self.sizes, Kept(*_flat(*kept)), *_flat(of_code)
        own = [(_flat(grad_y[i] if shared else grad_y)[0], Grads(*_flat(*(g[i] for g in grads)))) for i in range(count)]
        run: Any = sample_kernels.backward
        parallel_for(B, lambda first, last, worker: run(*given, *own[worker], first, last), self.min_items)
        first, first_bias, last, last_bias, ranks = (g.sum(dim=0) if count > 1 else g[0] for g in grads)
        layers = [self.first.unstacked(first.T), first_bias[:H], last, last_bias] if train else [None] * 4
        of_ranks = ranks.transpose(0, 1).flatten(1) if weigh else None
        return [grad_y.sum(dim=0, keepdim=True) if shared else grad_y, -of_code, of_ranks, *layers]


class SampleStep(torch.autograd.Function):
    """`FastStep` for one hidden layer: (y, z, rank weights, *layers) ↦ losses (B,) and gradients (B, N, D).

    The kernels hold the weights that are given here for their gradients.
    """

    @staticmethod
    def forward(ctx, kernels: SampleKernels, recompute: bool, y: Tensor, z: Tensor, *weights: Tensor):
        keep = ()
        if any(ctx.needs_input_grad):
            keep = ("ranks",) if recompute else ("x", "ranks", "reduced")
        loss, grad, kept = kernels.forward(y, z, keep)
        if keep:
            ctx.kernels = kernels
            ctx.save_for_backward(y, *kept, *weights)  # the weights only to notice if they are changed
            ctx.set_materialize_grads(False)
        return loss, grad

    @staticmethod
    def backward(ctx, *grads: Tensor | None):
        refuse_second_derivatives()
        loss_grad, u = grads
        y, *kept = ctx.saved_tensors[:6]
        slope, needs = kept[-1], ctx.needs_input_grad
        alone_in_backward()
        u = slope.new_zeros(len(slope), *y.shape[1:]) if u is None else u.contiguous()
        loss_grad = slope.new_zeros(len(slope)) if loss_grad is None else loss_grad
        return None, None, *ctx.kernels.backward(y, u, loss_grad, kept, needs[4], any(needs[5:]))


def _flat(*tensors: Tensor) -> list[Any]:
    """As flat arrays, which the kernels read and write: views, so the tensors must be contiguous."""
    return [(t.detach() if t.requires_grad else t).view(-1).numpy() for t in tensors]
