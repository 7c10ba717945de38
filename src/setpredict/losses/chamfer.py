"""The Chamfer loss between sets (section 2 of the paper)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from setpredict.losses.pairs import Cost, Masks, mean_present, pair_cost, prepare, take
from setpredict.matching import nearest
from setpredict.sets import Sets


def chamfer_loss(
    predicted: Sets, target: Sets, *, cost: Cost = "huber", masks: Masks = "feature"
) -> Float[Tensor, " B"]:
    """The cost from each element to its nearest in the other set: mean_i min_j c(ŷi, yj) + mean_j min_i c(ŷi, yj).

    It ignores how often an element occurs; the Hungarian loss does not. With masks="filter" a soft predicted mask is
    not used and gets no gradient: for sets of varying size, train with masks="feature".

    Args:
        predicted: Sets with a soft mask (or a bool mask, which removes elements with masks="filter").
        target: As many sets, none larger than the predicted N.
        cost: The cost c of a pair of elements, a `PairCost` or the name of a plain one.
        masks: Whether the mask is one more feature of every element, or padding of the target is left out.

    >>> a = Sets.from_list([[[0.0], [0.0], [1.0]]])
    >>> b = Sets.from_list([[[0.0], [1.0], [1.0]]])
    >>> chamfer_loss(a, b)
    tensor([0.])
    """
    cost = pair_cost(cost)
    a, b, keep_a, keep_b = prepare(predicted, target, masks)
    to_b, to_a = nearest(a, b, cost, keep_a, keep_b)  # (B, N), (B, M)
    count_a = keep_a
    if keep_b is not None:  # with an empty target, predicted elements have no nearest one
        some = keep_b.any(dim=1, keepdim=True).expand_as(to_b)
        count_a = some if keep_a is None else keep_a & some
    count_b = keep_b if keep_a is None or keep_b is None else keep_b & keep_a.any(dim=1, keepdim=True)
    if not a.shape[1] or not b.shape[1]:
        return a.sum(dim=(1, 2)) * 0
    return mean_present(cost.paired(a, take(b, to_b)), count_a) + mean_present(cost.paired(take(a, to_a), b), count_b)
