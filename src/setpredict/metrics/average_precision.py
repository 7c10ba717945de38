"""Average precision of predicted sets, pooled over all images, for boxes and for states (section 5 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from setpredict.metrics.candidates import (
    CLEVR_GROUPS,
    NO_GROUPS,
    Candidates,
    Groups,
    box_candidates,
    check_finite,
    state_candidates,
)

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
    """AP in [0, 1] of boxes (x0, y0, x1, y1) at each IoU threshold; a box may claim the target it overlaps most, of
    its own kind if features behind the box say it (`groups`). All kinds are ranked together.

    Every output is a detection; `scores` are clamped to [0, 1]. Detections of all images are ranked together, ties by
    `index` (the images' numbers; default: their order here), then by element. One is true if its IoU is at least the
    threshold and its target is not yet taken. AP = Σ over true ones of max precision from there on, ÷ all targets:
    0 without detections, NaN without targets. `plus_one` gives the paper's overestimate for boxes at unit scale.

    >>> boxes = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9]]])
    >>> targets = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0]]])
    >>> box_average_precision(boxes, torch.tensor([[0.8, 0.9]]), targets, torch.ones(1, 2).bool(), (0.5, 0.95))
    tensor([0.5000, 0.2500], dtype=torch.float64)
    """
    floors = iou_floors(thresholds)
    candidates = box_candidates(boxes, targets, target_mask, plus_one=plus_one, groups=groups)
    return _average_precision(candidates, scores, target_mask, floors, index)


def state_average_precision(
    states: Float[Tensor, "I N D"],
    scores: Float[Tensor, "I N"],
    targets: Float[Tensor, "I M D"],
    target_mask: Bool[Tensor, "I M"],
    thresholds: Sequence[float] = STATE_THRESHOLDS,
    *,
    coordinates: int = 3,
    scale: float | Sequence[float] = 3.0,
    groups: Groups = CLEVR_GROUPS,
    index: Int[Tensor, " I"] | None = None,
) -> Float[Tensor, " thresholds"]:
    """AP in [0, 1] of object states at each distance threshold; a state may claim the nearest target of its kind.

    Its kind is the arg-max of every attribute group. It is true if its distance is at most the threshold (∞: any) and
    its target is not yet taken. All else is as in `box_average_precision`, the layout as in `state_candidates`.

    >>> states = torch.tensor([[[0.5, 0.9, 0.2], [0.1, 0.3, 0.6]]])  # a position and two attribute values
    >>> targets = torch.tensor([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]])
    >>> scores, mask = torch.tensor([[0.8, 0.9]]), torch.ones(1, 2).bool()
    >>> layout = dict(coordinates=1, scale=1.0, groups={"kind": (1, 3)})
    >>> state_average_precision(states, scores, targets, mask, (float("inf"), 0.25), **layout)
    tensor([1.0000, 0.5000], dtype=torch.float64)
    """
    floors = distance_floors(thresholds)
    layout = {"coordinates": coordinates, "scale": scale, "groups": groups}
    return _average_precision(
        state_candidates(states, targets, target_mask, **layout), scores, target_mask, floors, index
    )


def true_positives(
    agreement: Float[Tensor, " K"], scores: Float[Tensor, " K"], targets: Int[Tensor, " K"], floor: float
) -> tuple[Bool[Tensor, " K"], Int[Tensor, " K"]]:
    """Which detections are true at one threshold, and the order in which they were asked: by score, descending.

    `targets` are numbers that no two ground truths share; a detection without a candidate has agreement NaN. Ties go
    to the earlier detection. For each ground truth, the first in that order with agreement ≥ `floor` is the true one.

    >>> agreement, scores = torch.tensor([0.7, 0.9, 0.4], dtype=torch.float64), torch.tensor([0.5, 0.5, 0.9])
    >>> true_positives(agreement, scores, torch.tensor([0, 0, 0]), 0.6)
    (tensor([ True, False, False]), tensor([2, 0, 1]))
    """
    order = _descending(scores)  # (K,)
    true = torch.zeros_like(order, dtype=torch.bool)
    true[order[_true_ranks(agreement[order], targets[order], floor)]] = True
    return true, order


def pooled_average_precision(
    agreement: Float[Tensor, " K"],
    scores: Float[Tensor, " K"],
    targets: Int[Tensor, " K"],
    ground_truths: int,
    floors: Sequence[float],
) -> Float[Tensor, " thresholds"]:
    """AP of K detections of all images, in order of image and element, for each floor of the agreement.

    With the i-th true detection at rank rᵢ and G ground truths: AP = 1/G Σᵢ max over j ≥ i of j / rⱼ.

    >>> agreement, scores = torch.tensor([0.7, 0.9], dtype=torch.float64), torch.tensor([0.5, 0.4])
    >>> pooled_average_precision(agreement, scores, torch.tensor([0, 1]), 2, [0.6, 0.8])
    tensor([1.0000, 0.2500], dtype=torch.float64)
    """
    if ground_truths == 0:
        return torch.full((len(floors),), torch.nan, dtype=torch.float64)
    order = _descending(scores)  # (K,)
    hopeful = (agreement >= min(floors))[order].nonzero()[:, 0]  # ranks from 0, ascending
    order = order[hopeful]
    agreement, targets = agreement[order], targets[order]
    result = torch.zeros(len(floors), dtype=torch.float64)
    for f, floor in enumerate(floors):
        ranks = hopeful[_true_ranks(agreement, targets, floor)]
        if len(ranks):
            # Between true ones precision only falls, so the every-point maximum is at a true one.
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
    """Where each image stands when they are put in order of their numbers, which must differ."""
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
    scores = scores.detach().cpu().clamp(0, 1)
    if index is not None:
        order = image_order(index)
        agreement, target, scores = agreement[order], target[order], scores[order]
    first = torch.arange(len(target))[:, None] * target_mask.shape[1]  # (I, 1)
    unique = (target + first).flatten()  # (I·N,)
    return pooled_average_precision(agreement.flatten(), scores.flatten(), unique, int(target_mask.sum()), floors)


def _descending(scores: Float[Tensor, " K"]) -> Int[Tensor, " K"]:
    """The order of the scores, highest first, ties as they stand."""
    if scores.dtype != torch.float32 or scores.is_cuda or not len(scores) or not bool(scores.min() >= 0):
        return torch.sort(scores, descending=True, stable=True).indices
    # The bits of positive floats are ordered like their values. With the place in the low half, every key differs and
    # numpy's plain sort (five times as fast as a stable one) puts ties as they stand.
    keys = (~(scores + 0.0).view(torch.int32)).long() * 2**32 + torch.arange(len(scores))
    return torch.from_numpy(np.sort(keys.numpy())) & (2**32 - 1)


def _true_ranks(agreement: Float[Tensor, " K"], targets: Int[Tensor, " K"], floor: float) -> Int[Tensor, " true"]:
    """The places of the true detections among the ranked ones: for each target the first that passes."""
    passing = torch.nonzero(agreement >= floor)[:, 0]  # ascending
    claimed = targets[passing]
    if not len(claimed):
        return passing
    first = passing.new_full((int(claimed.max()) + 1,), len(agreement)).scatter_reduce_(0, claimed, passing, "amin")
    return passing[first[claimed] == passing]
