"""Comparisons that name what differs."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn


def differences(a: Any, b: Any, ignore: tuple[str, ...] = (), where: str = "") -> list[str]:
    """The places at which two nested values differ; none if they are equal to the bit."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return [] if a.shape == b.shape and torch.equal(a, b) else [where or "tensor"]
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        found = [f"{where}.{k} is only in one" for k in a.keys() ^ b.keys() if k not in ignore]
        shared = [k for k in a if k in b and k not in ignore]
        return found + [d for k in shared for d in differences(a[k], b[k], ignore, f"{where}.{k}")]
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if len(a) != len(b):
            return [f"{where} has {len(a)} and {len(b)} items"]
        return [d for i, (x, y) in enumerate(zip(a, b)) for d in differences(x, y, ignore, f"{where}[{i}]")]
    return [] if a == b else [f"{where} is {a!r} and {b!r}"]


def parameters(model: nn.Module) -> dict[str, torch.Tensor]:
    """The parameters by name."""
    return {name: p.detach() for name, p in model.named_parameters()}


def moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Adam's first moments by the names of the parameters."""
    return {name: optimizer.state[p]["exp_avg"] for name, p in model.named_parameters()}


def assert_close(actual: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], rtol: float, atol: float):
    """Equal names, and values within the tolerances; an error names the first tensor that differs."""
    assert actual.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(
            actual[name], expected[name], rtol=rtol, atol=atol, msg=lambda text, name=name: f"{name}: {text}"
        )
