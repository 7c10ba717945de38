"""Preparing two batches of sets for a loss: checks, padding, and masks as a feature or as a filter."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from setpredict.core.errors import UserError
from setpredict.matching import PairCost
from setpredict.sets import Sets

Cost = PairCost | Literal["huber", "squared"]
Masks = Literal["feature", "filter"]


def prepare(
    predicted: Sets, target: Sets, masks: Masks
) -> tuple[
    Float[Tensor, "B N C"],
    Float[Tensor, "B M C"],
    Bool[Tensor, "B N"] | None,
    Bool[Tensor, "B M"] | None,
]:
    """The elements to compare, and which of them take part (None: all).

    `feature` (the paper): the mask is one more feature of every element; padding is the zero element and is matched
    like any other. `filter`: padding of the target is left out, as are predicted elements that a bool mask removes.
    """
    if masks not in ("feature", "filter"):
        raise ValueError(f"masks must be 'feature' or 'filter', got {masks!r}")
    if len(predicted) != len(target):
        raise ValueError(f"{len(predicted)} predicted sets for {len(target)} targets")
    (_, N, D), (_, M, E) = predicted.elements.shape, target.elements.shape
    if D != E:
        raise UserError(f"predicted elements have {D} features, the target's have {E}")
    largest = int(target.sizes.max()) if len(target) else 0
    if largest > N:
        raise UserError(f"a target set has {largest} elements, more than the {N} that are predicted")
    predicted.check_finite("predicted set")
    target.check_finite("target set")
    if masks == "filter":
        keep_a = predicted.mask if predicted.mask.dtype == torch.bool else None
        keep_b = target.present
        if keep_a is not None and bool((bad := keep_b.any(dim=1) & ~keep_a.any(dim=1)).any()):
            p = int(bad.nonzero()[0])
            raise UserError(f"predicted set {p} is empty and its target is not: their distance is undefined")
        return predicted.elements, target.elements, keep_a, keep_b
    if M < N:
        target = target.pad_to(N)
    elif M > N:
        raise UserError(f"target sets have capacity {M}, more than the {N} predicted elements: use masks='filter'")
    return predicted.features_with_mask, target.features_with_mask, None, None


def pair_cost(cost: Cost) -> PairCost:
    """A PairCost, from itself or from the name of a plain one."""
    return PairCost(cost) if isinstance(cost, str) else cost


def take(elements: Float[Tensor, "B N C"], index: Tensor) -> Float[Tensor, "B M C"]:
    """elements[b, index[b, m]]."""
    return elements.gather(1, index[..., None].expand(*index.shape, elements.shape[-1]))


def mean_present(values: Float[Tensor, "B N"], keep: Bool[Tensor, "B N"] | None) -> Float[Tensor, " B"]:
    """The mean over the elements that take part; 0 where there are none."""
    if keep is None:
        return values.mean(dim=1) if values.shape[1] else values.sum(dim=1)
    return values.masked_fill(~keep, 0).sum(dim=1) / keep.sum(dim=1).clamp(min=1)
