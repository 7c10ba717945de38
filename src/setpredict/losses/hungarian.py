"""The Hungarian loss between sets (section 2 of the paper)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from setpredict.core.errors import UserError
from setpredict.losses.pairs import Cost, Masks, mean_present, pair_cost, prepare, take
from setpredict.matching import PairCost, assign
from setpredict.sets import Sets


def hungarian_loss(
    predicted: Sets, target: Sets, *, cost: Cost = "huber", masks: Masks = "feature", mask_weight: float = 1.0
) -> Float[Tensor, " B"]:
    """The cheapest one-to-one assignment: min over π of mean_j c(ŷπ(j), yj).

    With masks="filter" only the elements present in the target are matched, each to a different predicted element. A
    further term then pulls a soft predicted mask towards 1 where its element was matched and towards 0 elsewhere.

    Args:
        predicted, target, cost, masks: As in `chamfer_loss`.
        mask_weight: The weight of the mask's own term with masks="filter".

    >>> a = Sets.from_list([[[0.0], [0.0], [1.0]]])
    >>> b = Sets.from_list([[[0.0], [1.0], [1.0]]])
    >>> hungarian_loss(a, b)  # one of three is off by 1: 0.5 / 3, over 2 features with the mask
    tensor([0.0833])
    """
    cost = pair_cost(cost)
    a, b, keep_a, keep_b = prepare(predicted, target, masks)
    if keep_a is not None and keep_b is not None:
        few = (keep_a.sum(dim=1) < keep_b.sum(dim=1)).nonzero()
        if len(few):
            p, n, m = int(few[0]), int(keep_a[few[0]].sum()), int(keep_b[few[0]].sum())
            raise UserError(f"predicted set {p} has {n} elements, its target {m}: expected at least as many")
    with torch.no_grad():
        to_a = assign(cost.matrix(a, b), keep_a, keep_b)  # (B, M), −1 where absent
    matched = take(a, to_a.clamp(min=0)) if a.shape[1] else b
    loss = mean_present(cost.paired(matched, b), keep_b)
    if masks == "filter" and mask_weight and a.shape[1] and predicted.mask.dtype != torch.bool:
        is_matched = torch.zeros_like(predicted.mask)
        is_matched.scatter_add_(1, to_a.clamp(min=0), (to_a >= 0).to(is_matched.dtype))
        loss = loss + mask_weight * PairCost(cost.kind).paired(predicted.mask, is_matched)
    return loss
