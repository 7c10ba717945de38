"""The Chamfer loss between sets (section 2 of the paper)."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor

from setpredict.losses.pairs import Masks, compared, mean_present, pair_cost, take
from setpredict.matching import PairCost, nearest
from setpredict.sets import Sets


def chamfer_loss(
    predicted: Sets,
    target: Sets,
    *,
    cost: PairCost | Literal["huber", "squared"] = "huber",
    masks: Masks = "feature",
) -> Float[Tensor, " B"]:
    """Every element to its nearest in the other set, both ways: mean_i min_j c(ŷi, yj) + mean_j min_i c(ŷi, yj).

    It does not see how often an element occurs; the Hungarian loss does. With masks="filter" a soft predicted mask
    plays no part and gets no gradient: for sets of differing sizes, train with masks="feature".

    >>> a = Sets.from_list([[[0.0], [0.0], [1.0]]])
    >>> b = Sets.from_list([[[0.0], [1.0], [1.0]]])
    >>> chamfer_loss(a, b)
    tensor([0.])
    """
    cost = pair_cost(cost)
    a, b, keep_a, keep_b = compared(predicted, target, masks)
    to_b, to_a = nearest(a, b, cost, keep_a, keep_b)  # (B, N), (B, M)
    there = keep_a
    if keep_b is not None:  # a sample whose target is empty has nothing to be near to
        some = keep_b.any(dim=1, keepdim=True).expand_as(to_b)
        there = some if keep_a is None else keep_a & some
    back = keep_b if keep_a is None or keep_b is None else keep_b & keep_a.any(dim=1, keepdim=True)
    if not a.shape[1] or not b.shape[1]:
        return a.sum(dim=(1, 2)) * 0
    return mean_present(cost.paired(a, take(b, to_b)), there) + mean_present(cost.paired(take(a, to_a), b), back)
