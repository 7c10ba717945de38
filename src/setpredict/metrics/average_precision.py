"""Average precision of predicted sets, pooled over all images, for boxes and for states (section 5 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from setpredict.metrics.candidates import NO_GROUPS, Candidates, Groups, box_candidates, check_finite, state_candidates

BOX_THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
STATE_THRESHOLDS = (float("inf"), 1.0, 0.5, 0.25, 0.125, 0.0625)


def box_average_precision(
    boxes: Float[Tensor, "I N D"],
    scores: Float[Tensor, "I N"],
    targets: Float[Tensor, "I M D"],
    target_mask: Bool[Tensor, "I M"],
    thresholds: Sequence[float] = BOX_THRESHOLDS,
    *,
    plus_one: bool = False,
    groups: Groups = NO_GROUPS,
    index: Int[Tensor, " I"] | None = None,
) -> Float[Tensor, " thresholds"]:
    """AP in [0, 1] of boxes (x0, y0, x1, y1) at each IoU threshold; a box can match only the target it overlaps most.

    Every output is a detection. Detections of all images and all classes are ranked together by score; ties by `index`,
    then by element. A detection is true if its IoU is at least the threshold and no detection ranked higher matched
    its target. AP = Σ over true detections of the highest precision at their rank or below, divided by the number of
    targets: 0 without detections, NaN without targets.

    Args:
        boxes: All outputs, possibly with one-hot attributes after the box.
        scores: One per output; only their order matters.
        targets: The true boxes, with the same features.
        target_mask: Which of them are present.
        thresholds: IoUs from 0 to 1.
        plus_one: Add 1 to every width and height, and to those of the intersection where boxes touch or overlap, as
            the evaluator of the paper's release does: an overestimate for boxes at unit scale.
        groups: One-hot attributes, such as a category, as feature ranges; a box can match only equal ones.
        index: The images' numbers (default: their order here).

    >>> boxes = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9]]])
    >>> targets = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0]]])
    >>> box_average_precision(boxes, torch.tensor([[0.8, 0.9]]), targets, torch.ones(1, 2).bool(), (0.5, 0.95))
    tensor([0.5000, 0.2500], dtype=torch.float64)
    """
    candidates = box_candidates(boxes, targets, target_mask, plus_one=plus_one, groups=groups)
    return _average_precision(candidates, scores, target_mask, iou_floors(thresholds), index)


def state_average_precision(
    states: Float[Tensor, "I N D"],
    scores: Float[Tensor, "I N"],
    targets: Float[Tensor, "I M D"],
    target_mask: Bool[Tensor, "I M"],
    thresholds: Sequence[float] = STATE_THRESHOLDS,
    *,
    coordinates: int,
    groups: Groups,
    scale: float | Sequence[float] = 1.0,
    index: Int[Tensor, " I"] | None = None,
) -> Float[Tensor, " thresholds"]:
    """AP in [0, 1] of object states at each distance threshold; a state can match only the nearest target of its class.

    Its class is the arg-max of every attribute group. It is true if its distance is at most the threshold (∞: any) and
    no detection ranked higher matched its target. All else is as in `box_average_precision`.

    Args:
        states, scores, targets, target_mask, index: As in `box_average_precision`; coordinates stand first.
        thresholds: Distances from 0 to ∞.
        coordinates: How many features are the position.
        groups: One-hot attributes as feature ranges [start, stop).
        scale: Factor of the coordinates, one number or one per coordinate.

    >>> states = torch.tensor([[[0.5, 0.9, 0.2], [0.1, 0.3, 0.6]]])  # a position and two attribute values
    >>> targets = torch.tensor([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]])
    >>> scores, mask = torch.tensor([[0.8, 0.9]]), torch.ones(1, 2).bool()
    >>> layout = dict(coordinates=1, groups={"kind": (1, 3)})
    >>> state_average_precision(states, scores, targets, mask, (float("inf"), 0.25), **layout)
    tensor([1.0000, 0.5000], dtype=torch.float64)
    """
    candidates = state_candidates(states, targets, target_mask, coordinates=coordinates, groups=groups, scale=scale)
    return _average_precision(candidates, scores, target_mask, distance_floors(thresholds), index)


def pooled_average_precision(
    agreement: Float[Tensor, " K"],
    scores: Float[Tensor, " K"],
    targets: Int[Tensor, " K"],
    ground_truths: int,
    floors: Sequence[float],
) -> Float[Tensor, " thresholds"]:
    """AP of the K detections of all images, in order of image and element, for each lower bound of the agreement.

    `targets` number the ground truths across images; a detection without a candidate has agreement NaN. Of the
    detections of one target whose agreement is at least the bound, the highest-ranked is true; ties go to the earlier.
    With the i-th true detection at rank rᵢ and G ground truths: AP = 1/G Σᵢ max over j ≥ i of j / rⱼ.

    >>> agreement, scores = torch.tensor([0.7, 0.9], dtype=torch.float64), torch.tensor([0.5, 0.4])
    >>> pooled_average_precision(agreement, scores, torch.tensor([0, 1]), 2, [0.6, 0.8])
    tensor([1.0000, 0.2500], dtype=torch.float64)
    """
    if ground_truths == 0:
        return torch.full((len(floors),), torch.nan, dtype=torch.float64)
    order = torch.sort(scores, descending=True, stable=True).indices  # (K,), ties in their order
    kept = (agreement >= min(floors))[order].nonzero()[:, 0]  # ranks from 0, ascending
    order = order[kept]
    agreement, targets = agreement[order], targets[order]
    result = torch.zeros(len(floors), dtype=torch.float64)
    for f, floor in enumerate(floors):
        ranks = kept[_true_ranks(agreement, targets, floor)]
        if len(ranks):
            # Between true detections precision only falls, so its maximum is at a true one.
            precision = torch.arange(1, len(ranks) + 1, dtype=torch.float64) / (ranks + 1)
            result[f] = precision.flip(0).cummax(dim=0).values.sum() / ground_truths
    return result


def iou_floors(thresholds: Sequence[float]) -> tuple[float, ...]:
    """IoU thresholds as lower bounds of the agreement."""
    if not thresholds or not all(0 <= t <= 1 for t in thresholds):
        raise ValueError(f"IoU thresholds must be one or more numbers from 0 to 1, got {tuple(thresholds)}")
    return tuple(float(t) for t in thresholds)


def distance_floors(thresholds: Sequence[float]) -> tuple[float, ...]:
    """Distance thresholds as lower bounds of the agreement, which is minus the distance."""
    if not thresholds or not all(t >= 0 for t in thresholds):
        raise ValueError(f"distance thresholds must be one or more numbers from 0 to inf, got {tuple(thresholds)}")
    return tuple(-float(t) for t in thresholds)


def image_order(index: Int[Tensor, " I"]) -> Int[Tensor, " I"]:
    """The permutation that sorts images by their numbers, which must differ."""
    ordered, order = torch.sort(index.cpu(), stable=True)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(repeated):
        raise ValueError(f"index must number every image differently, but {int(repeated[0])} occurs more than once")
    return order


def _average_precision(
    candidates: Candidates,
    scores: Float[Tensor, "I N"],
    target_mask: Bool[Tensor, "I M"],
    floors: Sequence[float],
    index: Int[Tensor, " I"] | None,
) -> Float[Tensor, " thresholds"]:
    check_finite("score", scores)
    agreement, target = candidates
    scores = scores.detach().cpu()
    if index is not None:
        order = image_order(index)
        agreement, target, scores = agreement[order], target[order], scores[order]
    first = torch.arange(len(target))[:, None] * target_mask.shape[1]  # (I, 1)
    unique = (target + first).flatten()  # (I·N,)
    return pooled_average_precision(agreement.flatten(), scores.flatten(), unique, int(target_mask.sum()), floors)


def _true_ranks(agreement: Float[Tensor, " K"], targets: Int[Tensor, " K"], floor: float) -> Int[Tensor, " true"]:
    """The positions of the true detections among the ranked ones: for each target the first that passes."""
    passing = torch.nonzero(agreement >= floor)[:, 0]  # ascending
    matched = targets[passing]
    if not len(matched):
        return passing
    first = passing.new_full((int(matched.max()) + 1,), len(agreement)).scatter_reduce_(0, matched, passing, "amin")
    return passing[first[matched] == passing]
