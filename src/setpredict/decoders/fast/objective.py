"""The representation loss with the hand-derived step, and when it applies."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from copy import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from setpredict.core.modes import is_plain
from setpredict.core.threads import alone, end_alone, parallel_map
from setpredict.decoders.fast.first_layer import FastElementLayer, FastPairLayer
from setpredict.decoders.fast.network import chunks, hidden_layers, linear_layers
from setpredict.decoders.fast.pool import RankWeights, losses, pool
from setpredict.decoders.fast.sample_step import SampleKernels, SampleStep, has_sample_kernel
from setpredict.decoders.fast.step import FastStep, Plan
from setpredict.encoders import MLP, DeepSetEncoder, FSPool, RelationEncoder, SetEncoder
from setpredict.encoders.masks import MASK_SUM

FIRST_LAYERS = {DeepSetEncoder: FastElementLayer(), RelationEncoder: FastPairLayer()}


class FastObjective:
    """Y ↦ L_repr(Y, z) on states (B, N, D) that hold what the encoder reads: elements, and the mask if it is a feature.

    Made once per decoding, for sets of `size` elements, with gradients enabled if any are wanted, and only where
    `has_fast_step`.
    """

    def __init__(self, encoder: SetEncoder, z: Tensor, kind: str, size: int, recompute: bool):
        assert isinstance(encoder.pool, FSPool)
        if z.requires_grad and torch.is_grad_enabled() and z.device.type == "cpu":
            z = _ThreadsBack.apply(z)
        self.z, self.mask_sum = (z[:, :-1], z[:, -1:]) if encoder.mask_sum else (z, None)
        self.z = self.z.contiguous()  # the kernels see flat memory
        self.layers = [p for m in encoder.network if isinstance(m, nn.Linear) for p in (m.weight, m.bias)]
        rows = encoder.first_layer.rows(size)
        weights = encoder.pool.rank_weights(rows)  # (R, C)
        self.weights = (weights / rows if encoder.normalize else weights).contiguous()
        first, descending = FIRST_LAYERS[type(encoder)], encoder.pool.descending
        self.plan, self.kernels = Plan(first, kind, descending, recompute), None
        if has_sample_kernel(self.weights, self.layers):
            self.kernels = SampleKernels(first, kind, descending, size, self.weights, self.layers)

    def threads(self) -> AbstractContextManager[None]:
        """For the loop around: where our own threads share the work, torch's must not keep their cores busy."""
        parts = chunks(len(self.z), len(self.weights), self.z)
        return alone() if self.kernels is not None or len(parts) > 1 else nullcontext()

    def value_and_grad(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Losses (B,) and gradients (B, N, D); of an expanded set only one copy goes through the network."""
        y = (y[:1] if y.stride(0) == 0 else y).contiguous()
        tensors = [y, self.z, self.weights, *self.layers]
        if not torch.is_grad_enabled():  # an autograd.Function does not see that, and would keep what backward needs
            tensors = [t.detach() for t in tensors]
        if self.kernels is not None:
            loss, grad = SampleStep.apply(self.kernels, self.plan.recompute, *tensors)
        else:
            loss, grad = FastStep.apply(self.plan, *tensors)
        return (loss, grad) if self.mask_sum is None else self._with_mask_sum(y, loss, grad)

    def _with_mask_sum(self, y: Tensor, loss: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        """The loss and its gradient with one more latent number in the mean: the sum of the masks."""
        assert self.mask_sum is not None
        (_, N, D), L = y.shape, self.z.shape[1] + 1
        found = MASK_SUM * y[..., -1].mean(dim=1, keepdim=True)  # (B, 1)
        value, slope, _ = losses(found, self.mask_sum, self.plan.kind)
        of_masks = slope * (MASK_SUM / N)  # (B, 1), the same for every element
        rest = (L - 1) / L
        return loss * rest + value / L, grad * rest + F.pad(of_masks[:, None] / L, (D - 1, 0))

    def subset(self, samples: Tensor) -> FastObjective:
        """The same for some of the samples."""
        part = copy(self)
        part.z = self.z[samples]
        part.mask_sum = None if self.mask_sum is None else self.mask_sum[samples]
        return part

    def losses(self, y: Tensor) -> Tensor:
        """The losses alone; with gradients on, they are part of the step that has both."""
        if torch.is_grad_enabled():
            return self.value_and_grad(y)[0]
        found = (
            self._losses_in_chunks(y) if self.kernels is None else self.kernels.forward(y, self.z, gradients=False)[0]
        )
        return found if self.mask_sum is None else self._with_mask_sum(y, found, torch.zeros_like(y))[0]

    def _losses_in_chunks(self, y: Tensor) -> Tensor:
        """The losses where the kernels for single samples do not apply, without `mask_sum`."""
        first, y = self.plan.first, y.contiguous()
        parts = chunks(len(y), first.layer.rows(y.shape[1]), y)
        found, weights, layers = y.new_empty(len(y)), RankWeights.of(self.weights), linear_layers(self.layers)

        def value(i: int, worker: int) -> None:
            part, workspace = parts[i], self.plan.workspace(worker)
            hidden = hidden_layers(first, y[part], layers, [None] * (len(layers) - 1), workspace)
            x = layers[-1].forward(hidden[-1], workspace.take("x", len(hidden[-1]), self.weights.shape[1], y))
            sets = x.view(-1, *self.weights.shape)
            code = pool(sets, weights, self.plan.descending, False).code
            found[part] = losses(code, self.z[part], self.plan.kind)[0]

        parallel_map(len(parts), value)
        return found


class _ThreadsBack(torch.autograd.Function):
    """z itself. Its backward comes after that of all steps: what computed z gets torch's threads back."""

    @staticmethod
    def forward(ctx, z: Tensor) -> Tensor:
        return z.view_as(z)

    @staticmethod
    def backward(ctx, *grads: Tensor) -> Tensor:
        end_alone()
        return grads[0]


def has_fast_step(encoder: nn.Module, state: Tensor, z: Tensor, mask: str) -> bool:
    """Whether FastObjective is L_repr for this encoder and state, whose masks are kept as `mask` says.

    True for a DeepSetEncoder or RelationEncoder itself (no subclass, no hooks, nothing replaced) with ReLU layers and
    FSPool, whose mask is a feature (with or without `mask_sum`) or absent, and plain tensors outside of any
    transformation or tracing.
    """
    if type(encoder) not in FIRST_LAYERS or not isinstance(encoder, SetEncoder):
        return False
    if (encoder.mask_role, mask) not in (("feature", "clamp"), ("feature", "free"), ("none", "none")):
        return False
    network, fspool = encoder.network, encoder.pool
    if not isinstance(fspool, FSPool) or type(fspool) is not FSPool or _changed(encoder):
        return False
    if encoder.mask_sum and mask == "none":
        return False
    if not _is_relu_network(network):
        return False
    tensors = [state, z, *encoder.parameters()]
    if z.dtype not in (torch.float32, torch.float64) or len({(t.dtype, t.device) for t in tensors}) > 1:
        return False
    B, N, D = state.shape
    first = encoder.first_layer
    L = len(fspool.weight) + encoder.mask_sum
    fits = tuple(z.shape) == (B, L) and network[0].in_features == first.inputs(D)
    plain = is_plain() and all(type(t) in (Tensor, nn.Parameter) for t in tensors)
    return bool(fits) and plain and B * N > 0 and (fspool.size is None or first.rows(N) <= fspool.size)


def _is_relu_network(network: nn.Module) -> bool:
    kinds = [type(layer) for layer in network.children()]
    alternating = [nn.Linear, nn.ReLU] * (len(kinds) // 2) + [nn.Linear]
    biased = all(layer.bias is not None for layer in network.children() if isinstance(layer, nn.Linear))
    return type(network) is MLP and len(kinds) > 1 and kinds == alternating and biased


def _changed(encoder: nn.Module) -> bool:
    """Whether a layer of the encoder has a hook or a replaced forward."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any("forward" in vars(m) or any(getattr(m, h) for h in hooks) for m in encoder.modules())
