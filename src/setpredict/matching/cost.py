"""Pair costs, shared by matching and losses: how far one element is from another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from setpredict.core.threads import parallel_for
from setpredict.matching import cost_kernels

MIN_WORK = 1 << 17
"""Differences of features per thread; with fewer, another thread costs more than it saves."""


@dataclass(frozen=True)
class PairCost:
    """The cost of a pair of elements, averaged over their C features.

    Per feature it is h(d) of the difference d: Huber (d²/2 below 1, |d| − 1/2 above; the paper's choice) or squared
    (d²/2). The features of a named one-hot group are scored together by cross-entropy instead: the
    prediction holds logits there, the target the one-hot class (all zeros, as in padding, cost nothing).

    >>> cost = PairCost()
    >>> cost.paired(torch.tensor([[0.0, 3.0]]), torch.tensor([[1.0, 0.0]]))  # (0.5 + 2.5) / 2
    tensor([1.5000])
    """

    kind: Literal["huber", "squared"] = "huber"
    """h, the cost of a difference."""
    groups: Mapping[str, tuple[int, int]] | None = None
    """Feature ranges [start, stop) of the one-hot groups that are scored by cross-entropy, by name."""
    weights: tuple[float, ...] | None = None
    """One factor per feature; the mask, where it is a feature, is the last."""

    def __post_init__(self) -> None:
        if self.kind not in ("huber", "squared"):
            raise ValueError(f"pair cost must be 'huber' or 'squared', got {self.kind!r}")
        if any(not 0 <= w < float("inf") for w in self.weights or ()):
            raise ValueError(f"weights must be 0 or more, got {self.weights}")
        taken: dict[int, str] = {}
        for name, (start, stop) in (self.groups or {}).items():
            if not 0 <= start < stop:
                raise ValueError(f"group {name!r} must be a range [start, stop) of features, got [{start}, {stop})")
            for c in range(start, stop):
                if c in taken:
                    raise ValueError(f"groups {taken[c]!r} and {name!r} overlap at feature {c}")
                taken[c] = name

    @property
    def is_plain(self) -> bool:
        """Huber or squared, the same for all features: what the kernels compute."""
        return not self.groups and self.weights is None

    def paired(self, a: Float[Tensor, "*P C"], b: Float[Tensor, "*P C"]) -> Float[Tensor, "*P"]:
        """The cost of every pair a[i], b[i]."""
        weights, plain = self._weights(a), self._plain_features(a.shape[-1])
        pieces = self._distance(a - b)  # (*P, C)
        if weights is not None:
            pieces = pieces * weights
        if not self.groups:
            return pieces.mean(dim=-1)
        total = pieces[..., plain].sum(dim=-1)
        for start, stop in self.groups.values():
            classes = self._weighted(b, weights, start, stop)
            total = total - (classes * F.log_softmax(a[..., start:stop], dim=-1)).sum(dim=-1)
        return total / a.shape[-1]

    def matrix(self, a: Float[Tensor, "P N C"], b: Float[Tensor, "P M C"]) -> Float[Tensor, "P N M"]:
        """The cost of every pair a[i], b[j], accumulated feature by feature so that (P, N, M, C) never exists.

        Without gradients, plain costs on a CPU are computed by a kernel.
        """
        same_type = a.dtype == b.dtype and a.dtype in (torch.float32, torch.float64) and a.device.type == b.device.type
        if self.is_plain and same_type and a.device.type == "cpu" and not torch.is_grad_enabled():
            return self._kernel_matrix(a, b)
        kind = torch.promote_types(a.dtype, b.dtype)
        a, b = a.to(kind), b.to(kind)
        weights = self._weights(a)
        total = a.new_zeros(a.shape[0], a.shape[1], b.shape[1])
        for c in self._plain_features(a.shape[-1]):
            piece = self._distance(a[:, :, None, c] - b[:, None, :, c])  # (P, N, M)
            total += piece if weights is None else piece * weights[c]
        for start, stop in (self.groups or {}).values():
            classes = self._weighted(b, weights, start, stop)
            total -= F.log_softmax(a[..., start:stop], dim=-1) @ classes.mT
        return total / a.shape[-1]

    def _kernel_matrix(self, a: Tensor, b: Tensor) -> Tensor:
        P, N, M = a.shape[0], a.shape[1], b.shape[1]
        total = a.new_empty(P, N, M)
        arrays: Any = [t.detach().contiguous().numpy() for t in (a, b)]
        out, run = total.numpy(), cast(Any, cost_kernels.matrix)
        min_items = max(1, MIN_WORK // max(N * M * a.shape[2], 1))
        parallel_for(P, lambda start, stop, _: run(*arrays, self.kind == "huber", out, start, stop), min_items)
        return total

    def _distance(self, d: Tensor) -> Tensor:
        if self.kind == "squared":
            return d * d / 2
        return F.smooth_l1_loss(d, d.new_zeros(()).expand_as(d), reduction="none")

    def _weights(self, a: Tensor) -> Tensor | None:
        if self.weights is None:
            return None
        if len(self.weights) != a.shape[-1]:
            raise ValueError(f"{len(self.weights)} feature weights for elements with {a.shape[-1]} features")
        return a.new_tensor(self.weights)

    def _weighted(self, b: Tensor, weights: Tensor | None, start: int, stop: int) -> Tensor:
        classes = b[..., start:stop]
        return classes if weights is None else classes * weights[start:stop]

    def _plain_features(self, features: int) -> list[int]:
        """The indices of the features that belong to no group."""
        groups = (self.groups or {}).items()
        for name, (_, stop) in groups:
            if stop > features:
                raise ValueError(f"group {name!r} ends at feature {stop}, but elements have {features} features")
        return [c for c in range(features) if not any(start <= c < stop for _, (start, stop) in groups)]
