"""The Hungarian loss between sets (section 2 of the paper)."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from setpredict.losses.pairs import Masks, compared, mean_present, pair_cost, take
from setpredict.matching import PairCost, assign
from setpredict.sets import Sets


def hungarian_loss(
    predicted: Sets,
    target: Sets,
    *,
    cost: PairCost | Literal["huber", "squared"] = "huber",
    masks: Masks = "feature",
    mask_weight: float = 1.0,
) -> Float[Tensor, " B"]:
    """The cheapest one-to-one assignment: min over π of mean_j c(ŷπ(j), yj).

    With masks="filter" only the elements present in the target are matched, each to a prediction of its own; a soft
    predicted mask is then drawn to 1 where its element was matched and to 0 elsewhere, with weight `mask_weight`.

    >>> a = Sets.from_list([[[0.0], [0.0], [1.0]]])
    >>> b = Sets.from_list([[[0.0], [1.0], [1.0]]])
    >>> hungarian_loss(a, b)  # one of three is off by 1: 0.5 / 3, over 2 features with the mask
    tensor([0.0833])
    """
    cost = pair_cost(cost)
    a, b, keep_a, keep_b = compared(predicted, target, masks)
    if keep_a is not None and keep_b is not None:
        few = (keep_a.sum(dim=1) < keep_b.sum(dim=1)).nonzero()
        if len(few):
            p, n, m = int(few[0]), int(keep_a[few[0]].sum()), int(keep_b[few[0]].sum())
            raise ValueError(f"predicted set {p} has {n} elements, its target {m}: each needs one of its own")
    with torch.no_grad():
        to_a = assign(cost.matrix(a, b), keep_a, keep_b)  # (B, M), −1 where absent
    matched = take(a, to_a.clamp(min=0)) if a.shape[1] else b
    loss = mean_present(cost.paired(matched, b), keep_b)
    if masks == "filter" and mask_weight and a.shape[1] and predicted.mask.dtype != torch.bool:
        serves = torch.zeros_like(predicted.mask)
        serves.scatter_add_(1, to_a.clamp(min=0), (to_a >= 0).to(serves.dtype))
        loss = loss + mask_weight * PairCost(cost.kind).paired(predicted.mask, serves)
    return loss
