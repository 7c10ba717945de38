"""A convolution and the batch norm behind it as one convolution, for inference: W' = W γ/σ, b' = β + (b − μ) γ/σ."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from setpredict.core.modes import is_plain

_folded: WeakKeyDictionary[nn.Module, tuple[Tensor, Tensor, Tensor]] = WeakKeyDictionary()
"""By convolution: a fingerprint of the tensors, and the folded weight and bias that were made of them."""


def normalized(conv: nn.Conv2d, norm: nn.BatchNorm2d, x: Tensor) -> Tensor:
    """norm(conv(x)): one convolution where nothing is trained, that is without gradients and in evaluation mode.

    The folded weights are not part of the model. They are made again when the weights or the statistics change.
    """
    given = [conv.weight, conv.bias, norm.weight, norm.bias, norm.running_mean, norm.running_var]
    tensors = [t for t in given if t is not None]
    if norm.training or torch.is_grad_enabled() or not _plain(conv, norm, tensors):
        return norm(conv(x))
    now, found = fingerprint(tensors), _folded.get(conv)
    if found is None or found[0].device != now.device or not torch.equal(found[0], now):
        found = _folded[conv] = now, *fold(conv, norm)
    return F.conv2d(x, found[1], found[2], conv.stride, conv.padding, conv.dilation, conv.groups)


def normalized_sequence(layers: nn.Sequential, x: Tensor) -> Tensor:
    """`layers(x)`, where a convolution followed by a batch norm is one step."""
    steps = list(layers)
    for i, layer in enumerate(steps):
        if isinstance(layer, nn.BatchNorm2d) and i and isinstance(steps[i - 1], nn.Conv2d):
            continue
        behind = steps[i + 1] if i + 1 < len(steps) else None
        if isinstance(layer, nn.Conv2d) and isinstance(behind, nn.BatchNorm2d):
            x = normalized(layer, behind, x)
        else:
            x = layer(x)
    return x


@torch.no_grad()
def fold(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """The weight and bias of the one convolution.

    >>> conv, norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8).eval()
    >>> x, (weight, bias) = torch.rand(1, 3, 5, 5), fold(conv, norm)
    >>> torch.allclose(F.conv2d(x, weight, bias), norm(conv(x)), atol=1e-5)
    True
    """
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None
    assert variance is not None
    factor = norm.weight * (variance + norm.eps).rsqrt()  # (C,)
    bias = norm.bias - mean * factor
    return conv.weight * factor.view(-1, 1, 1, 1), bias if conv.bias is None else bias + conv.bias * factor


def fingerprint(tensors: list[Tensor]) -> Tensor:
    """The sum and the norm of each tensor, which other values share only by an unlikely chance.

    Addresses and versions would not do: neither `tensor.data.copy_` nor a fused optimizer changes a version.
    """
    return torch.stack([f(t.detach()) for t in tensors for f in (torch.sum, torch.linalg.vector_norm)])


def _plain(conv: nn.Conv2d, norm: nn.BatchNorm2d, tensors: list[Tensor]) -> bool:
    """Zeros as padding, no hooks, and values that can be compared."""
    hooks = [m._forward_hooks or m._forward_pre_hooks for m in (conv, norm)]
    return (
        conv.padding_mode == "zeros"
        and len(tensors) == 5 + (conv.bias is not None)
        and not any(hooks)
        and not any(t.is_inference() for t in tensors)
        and is_plain()
    )
