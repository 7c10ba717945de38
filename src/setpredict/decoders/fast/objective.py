"""The inner objective with the fast step, and which encoders and circumstances it is for."""

from __future__ import annotations

from copy import copy

import torch
from torch import Tensor, nn

from setpredict.decoders.fast.elements import ElementLift
from setpredict.decoders.fast.network import chunks, hidden_layers, linear
from setpredict.decoders.fast.pool import losses, pool
from setpredict.decoders.fast.pairs import PairLift
from setpredict.decoders.fast.step import FastStep, Plan
from setpredict.encoders import MLP, DeepSetEncoder, FSPool, RelationEncoder
from setpredict.core.threads import parallel_map

LIFTS = {DeepSetEncoder: ElementLift, RelationEncoder: PairLift}


class FastObjective:
    """Y ↦ L_repr(Y, z) on states (B, N, D) that hold what the encoder reads: elements, and the mask if it is a feature.

    To be made once a decoding, for sets of `size` elements, with gradients on if any are wanted. Ask `has_fast_step`
    first.
    """

    def __init__(self, encoder: DeepSetEncoder | RelationEncoder, z: Tensor, kind: str, size: int, recompute: bool):
        network, fspool = _parts(encoder)
        self.z = z
        self.layers = [p for layer in network if isinstance(layer, nn.Linear) for p in (layer.weight, layer.bias)]
        self.plan = Plan(LIFTS[type(encoder)](), kind, fspool.descending, recompute)
        rows = self.plan.lift.rows(size)
        weights = fspool.rank_weights(rows).T  # (C, R)
        self.weights = (weights / rows if encoder.normalize else weights).contiguous()

    def value_and_grad(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Losses (B,) and gradients (B, N, D); of an expanded set only one copy goes through the network."""
        if y.stride(0) == 0:
            y = y[:1]
        tensors = [y, self.z, self.weights, *self.layers]
        if not torch.is_grad_enabled():  # a function does not see that by itself, and would keep what backward needs
            tensors = [t.detach() for t in tensors]
        return FastStep.apply(self.plan, *tensors)

    def of(self, samples: Tensor) -> FastObjective:
        """The same for some of the samples."""
        part = copy(self)
        part.z = self.z[samples]
        return part

    def __call__(self, y: Tensor) -> Tensor:
        """The losses alone; with gradients on, they are part of the step that has both."""
        if torch.is_grad_enabled():
            return self.value_and_grad(y)[0]
        parts, lift = chunks(len(y), self.plan.lift.rows(y.shape[1]), y), self.plan.lift
        found = y.new_empty(len(y))

        def value(i: int, worker: int) -> None:
            part, known = parts[i], [None] * (len(self.layers) // 2 - 1)
            hidden = hidden_layers(lift, y[part], self.layers, known, self.plan.room(worker))
            x = linear(hidden[-1], self.layers[-2], self.layers[-1], None)
            pooled = pool(
                x.view(part.stop - part.start, -1, len(self.weights)), self.weights, self.plan.descending, False
            )
            found[part] = losses(pooled.code, self.z[part], self.plan.kind)[0]

        parallel_map(len(parts), value)
        return found


def has_fast_step(encoder: nn.Module, state: Tensor, z: Tensor, mask: str) -> bool:
    """Whether FastObjective is L_repr for this encoder and state, whose masks are kept as `mask` says.

    That is a DeepSetEncoder or RelationEncoder itself (no subclass, no hooks, nothing exchanged), with ReLU layers and
    FSPool, whose mask is a feature or does not exist; and plain tensors, outside of any transformation or tracing.
    """
    if type(encoder) not in LIFTS or not isinstance(encoder, DeepSetEncoder | RelationEncoder):
        return False
    if (encoder.mask_role, mask) not in (("feature", "clamp"), ("feature", "free"), ("none", "none")):
        return False
    if encoder.mask_sum or type(encoder.pool) is not FSPool or _changed(encoder):
        return False
    network, fspool = _parts(encoder)
    if not _is_relu_network(network):
        return False
    tensors = [state, z, *encoder.parameters()]
    if z.dtype not in (torch.float32, torch.float64) or len({(t.dtype, t.device) for t in tensors}) > 1:
        return False
    B, N, D = state.shape
    lift = LIFTS[type(encoder)]()
    fits = len(z) == B and z.shape[1] == len(fspool.weight) and network[0].in_features == lift.inputs(D)
    return fits and B * N > 0 and (fspool.size is None or lift.rows(N) <= fspool.size) and _plain(tensors)


def _parts(encoder: DeepSetEncoder | RelationEncoder) -> tuple[nn.Sequential, FSPool]:
    assert isinstance(encoder.pool, FSPool)
    return encoder.elements if isinstance(encoder, DeepSetEncoder) else encoder.pairs, encoder.pool


def _is_relu_network(network: nn.Module) -> bool:
    kinds = [type(layer) for layer in network.children()]
    alternating = [nn.Linear, nn.ReLU] * (len(kinds) // 2) + [nn.Linear]
    biased = all(layer.bias is not None for layer in network.children() if isinstance(layer, nn.Linear))
    return type(network) is MLP and len(kinds) > 1 and kinds == alternating and biased


def _changed(encoder: nn.Module) -> bool:
    """Whether anybody listens to the encoder's layers or has given them another forward."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any("forward" in vars(m) or any(getattr(m, h) for h in hooks) for m in encoder.modules())


def _plain(tensors: list[Tensor]) -> bool:
    """Not within torch.func, forward-mode differentiation, a dispatch mode (FLOP counters, make_fx) or a compiler."""
    return (
        all(type(t) in (Tensor, nn.Parameter) for t in tensors)
        and torch._C._functorch.peek_interpreter_stack() is None  # pyright: ignore[reportAttributeAccessIssue]
        and torch._C._len_torch_dispatch_stack() == 0
        and torch.autograd.forward_ad._current_level < 0
        and not torch.compiler.is_compiling()
    )
