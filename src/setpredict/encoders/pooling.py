"""Sum, mean and max pooling over a set, with the same interface as FSPool."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from setpredict.core.errors import UserError
from setpredict.encoders.fspool import FSPool

Pooling = Literal["fspool", "fspool-free", "sum", "mean", "max"]


class SumPool(nn.Module):
    """out[b, c] = Σ_i x[b, i, c] over the elements present."""

    def forward(self, x: Float[Tensor, "B N C"], mask: Bool[Tensor, "B N"] | None = None) -> Float[Tensor, "B C"]:
        return x.sum(dim=1) if mask is None else x.masked_fill(~mask[..., None], 0).sum(dim=1)


class MeanPool(nn.Module):
    """The sum divided by the number of elements present; 0 for the empty set."""

    def forward(self, x: Float[Tensor, "B N C"], mask: Bool[Tensor, "B N"] | None = None) -> Float[Tensor, "B C"]:
        if mask is None:
            return x.sum(dim=1) / max(x.shape[1], 1)
        return x.masked_fill(~mask[..., None], 0).sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)


class MaxPool(nn.Module):
    """The largest value of every feature over the elements present; 0 for the empty set."""

    def forward(self, x: Float[Tensor, "B N C"], mask: Bool[Tensor, "B N"] | None = None) -> Float[Tensor, "B C"]:
        if x.shape[1] == 0:
            return x.sum(dim=1)
        if mask is None:
            return x.amax(dim=1)
        largest = x.masked_fill(~mask[..., None], -torch.inf).amax(dim=1)
        return largest.masked_fill(~mask.any(dim=1, keepdim=True), 0)


def make_pool(kind: Pooling, channels: int, max_size: int, pieces: int = 20) -> nn.Module:
    """The pooling of that name. `fspool-free` has one free weight per rank and sorts ascending, as iDSPN does."""
    match kind:
        case "fspool":
            return FSPool(channels, pieces)
        case "fspool-free":
            return FSPool(channels, size=max_size, descending=False)
        case "sum":
            return SumPool()
        case "mean":
            return MeanPool()
        case "max":
            return MaxPool()
    raise UserError(f"pool must be one of fspool, fspool-free, sum, mean, max, got {kind!r}")
