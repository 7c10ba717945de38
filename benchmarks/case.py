"""A case: workloads that are timed in alternation, with a check that they compute the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

Workload = Callable[[], object]


@dataclass
class Case:
    """Workloads to time in alternation."""

    workloads: dict[str, Workload]
    ratios: dict[str, tuple[str, str]]
    """Keys of the results, and the (slower, faster) workloads whose times are divided."""
    check: Callable[[], float]
    """Gives the largest relative difference between the results of both sides."""
    rounds: int = 5
    """How many times each workload is timed."""
    tolerance: float = 1e-3
    """The largest difference that is accepted."""
    flops: dict[str, float] = field(default_factory=dict)
    """The floating-point operations of some of the workloads."""
    threads: int | None = None
    """How many threads torch has (None: as many as for the other cases)."""


def difference(ours: list[Tensor], plain: list[Tensor]) -> float:
    """The largest relative difference, in norm."""
    return max(float((a - b).norm() / b.norm().clamp(min=1e-12)) for a, b in zip(ours, plain, strict=True))


def gradients(loss: Tensor, network: nn.Module) -> list[Tensor]:
    """The loss and its gradients for all parameters as one vector, because some alone are only noise around 0."""
    found = torch.autograd.grad(loss, list(network.parameters()))
    return [loss.detach(), torch.cat([g.flatten() for g in found])]
