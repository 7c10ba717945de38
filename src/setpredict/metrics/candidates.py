"""The candidate of each detection: the nearest ground truth of its image, by overlap (boxes) or distance (states)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from setpredict.core.errors import NotFinite

Groups = Mapping[str, tuple[int, int]]
"""One-hot attributes by name, as feature ranges [start, stop)."""
NO_GROUPS: Groups = {}
PAIRS_AT_ONCE = 1 << 17
"""How many (detection, ground truth) pairs are compared at a time: 1 MB in float64, so that they stay in the cache."""


class Candidates(NamedTuple):
    """The ground truth that each detection can match, and how well it agrees with it.

    Computed on the CPU in float64 whatever the input, so that results do not depend on the device.
    """

    agreement: Float[Tensor, "I N"]
    """The IoU of a box, or minus the distance of a state; NaN without a candidate."""
    target: Int[Tensor, "I N"]
    """The index of the ground truth in its image, the lowest among equally near ones; −1 without a candidate."""


def box_iou(
    boxes: Float[Tensor, "I N 4"], targets: Float[Tensor, "I M 4"], *, plus_one: bool = False
) -> Float[Tensor, "I N M"]:
    """Intersection over union |a ∩ b| / |a ∪ b| of boxes (x0, y0, x1, y1); 0 where the union is empty.

    A box whose sides are swapped (x1 < x0) is empty. `plus_one` adds 1 to every width and height, also of the
    intersection of boxes that at least touch: right for integer pixels, an overestimate for boxes at unit scale.

    >>> a, b = torch.tensor([[[0.0, 0.0, 2.0, 1.0]]]), torch.tensor([[[1.0, 0.0, 3.0, 1.0]]])
    >>> box_iou(a, b)
    tensor([[[0.3333]]])
    """
    return _iou(boxes.permute(2, 1, 0), targets.permute(2, 1, 0), plus_one).permute(2, 0, 1)


def box_candidates(
    boxes: Float[Tensor, "I N D"],
    targets: Float[Tensor, "I M D"],
    target_mask: Bool[Tensor, "I M"],
    *,
    plus_one: bool = False,
    groups: Groups = NO_GROUPS,
) -> Candidates:
    """The ground truth of highest IoU for each box, among those with the same arg-max in every group of `groups`.

    The first four features are the box; `groups` names one-hot attributes, such as a category, as feature ranges.

    >>> boxes = torch.tensor([[[0.0, 0.0, 1.0, 1.0]]])
    >>> targets = torch.tensor([[[5.0, 5.0, 6.0, 6.0], [0.0, 0.0, 1.0, 2.0]]])
    >>> box_candidates(boxes, targets, torch.ones(1, 2, dtype=torch.bool))
    Candidates(agreement=tensor([[0.5000]], dtype=torch.float64), target=tensor([[1]]))
    """
    _check_layout(boxes.shape[2], 4, (1.0,) * 4, groups)

    def nearest(boxes: Tensor, targets: Tensor, absent: Tensor) -> tuple[Tensor, Tensor]:
        iou = _iou(boxes[:4].double(), targets[:4].double(), plus_one)  # (N, M, I)
        excluded = absent
        if groups:
            excluded = absent | (_attributes(boxes, groups)[:, None] != _attributes(targets, groups)[None])
        best, target = torch.where(excluded, -torch.inf, iou).max(dim=1)
        return best, target

    return _candidates("box", nearest, boxes, targets, target_mask)


def state_candidates(
    states: Float[Tensor, "I N D"],
    targets: Float[Tensor, "I M D"],
    target_mask: Bool[Tensor, "I M"],
    *,
    coordinates: int,
    groups: Groups,
    scale: float | Sequence[float] = 1.0,
) -> Candidates:
    """The ground truth at the smallest Euclidean distance, among those with the same arg-max in every group.

    The first `coordinates` features times `scale` (one number, or one per coordinate) are the position; `groups` names
    the one-hot attributes as feature ranges [start, stop).

    >>> states = torch.tensor([[[0.5, 0.2, 0.9]]])  # a position and two attribute values
    >>> targets = torch.tensor([[[0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]])  # the nearer one has the other attribute
    >>> mask = torch.ones(1, 2, dtype=torch.bool)
    >>> state_candidates(states, targets, mask, coordinates=1, groups={"kind": (1, 3)})
    Candidates(agreement=tensor([[-0.5000]], dtype=torch.float64), target=tensor([[1]]))
    """
    factors = tuple(scale) if isinstance(scale, Sequence) else (scale,) * coordinates
    _check_layout(states.shape[2], coordinates, factors, groups)

    def nearest(states: Tensor, targets: Tensor, absent: Tensor) -> tuple[Tensor, Tensor]:
        factor = torch.tensor(factors, dtype=torch.float64)[:, None, None]
        a, b = (x[:coordinates].double() * factor for x in (states, targets))
        squared = torch.zeros(a.shape[1], b.shape[1], a.shape[2], dtype=torch.float64)  # (N, M, I)
        for c in range(coordinates):
            difference = a[c][:, None] - b[c][None]
            squared.addcmul_(difference, difference)
        kind, wanted = _attributes(states, groups), torch.where(absent, -1, _attributes(targets, groups))
        best, target = torch.where(kind[:, None] == wanted[None], squared, torch.inf).min(dim=1)
        return -best.sqrt_(), target

    return _candidates("state", nearest, states, targets, target_mask)


def check_finite(name: str, values: Tensor, mask: Tensor | None = None) -> None:
    """Raise NotFinite if (I, N, …) holds a NaN or an infinity outside the padding; it names the image and element."""
    if bool(torch.isfinite(values.sum())):  # fast; a sum that is not finite may also be an overflow
        return
    wrong = ~torch.isfinite(values)
    where = torch.nonzero(wrong if mask is None else wrong & mask[..., None])
    if len(where):
        image, element = where[0, :2].tolist()
        value = values[tuple(where[0])].item()
        raise NotFinite(f"{name} {element} of image {image} is {value}, expected a finite number")


def _iou(a: Float[Tensor, "4 N I"], b: Float[Tensor, "4 M I"], plus_one: bool) -> Float[Tensor, "N M I"]:
    one = 1 if plus_one else 0
    inner = None
    for low, high in ((0, 2), (1, 3)):
        near = torch.minimum(a[high][:, None], b[high][None])
        side = near.sub_(torch.maximum(a[low][:, None], b[low][None])).add_(one).clamp_(min=0)
        if plus_one:  # boxes that do not even touch have no intersection to add 1 to
            side.masked_fill_((a[low][:, None] > b[high][None]) | (b[low][None] > a[high][:, None]), 0)
        inner = side if inner is None else inner.mul_(side)  # (N, M, I)
    area_a, area_b = ((x[2:] - x[:2] + one).prod(dim=0) for x in (a, b))
    union = (area_a[:, None] + area_b[None]).sub_(inner)
    return inner.div_(union.masked_fill_(union <= 0, torch.inf))  # type: ignore[union-attr]


def _attributes(states: Float[Tensor, "D N I"], groups: Groups) -> Int[Tensor, "N I"]:
    """One number for the arg-max of all groups together: equal numbers mean equal attributes."""
    values = states.float().numpy() if states.dtype == torch.bfloat16 else states.numpy()
    number = np.zeros(values.shape[1:], dtype=np.int64)
    for start, stop in groups.values():
        # The arg-max is the number of classes before the first maximum; for few classes, three times as fast as argmax.
        largest = values[start:stop].max(axis=0)
        before = np.ones(largest.shape, dtype=bool)
        winner = np.zeros(largest.shape, dtype=np.int32)
        for c in range(start, stop - 1):
            before &= values[c] < largest
            winner += before
        number = number * (stop - start) + winner
    return torch.from_numpy(number)


def _check_layout(D: int, coordinates: int, factors: Sequence[float], groups: Groups) -> None:
    if not 0 <= coordinates <= D:
        raise ValueError(f"coordinates must be between 0 and the {D} features of an element, got {coordinates}")
    if len(factors) != coordinates or not all(0 < f < float("inf") for f in factors):
        raise ValueError(f"scale must be a positive number, or one per coordinate ({coordinates}), got {factors}")
    for name, (start, stop) in groups.items():
        if not 0 <= start < stop <= D:
            raise ValueError(f"group {name!r} must lie within the {D} features of an element, got [{start}, {stop})")


def _candidates(
    name: str,
    nearest: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]],
    detections: Float[Tensor, "I N D"],
    targets: Float[Tensor, "I M D"],
    target_mask: Bool[Tensor, "I M"],
) -> Candidates:
    """Call `nearest` on chunks of images: (D, N, I), (D, M, I) and the padding (M, I) → agreement, target (N, I)."""
    check_finite(name, detections)
    check_finite(f"target {name}", targets, target_mask)
    (images, N), M = detections.shape[:2], targets.shape[1]
    agreement = torch.full((N, images), -torch.inf, dtype=torch.float64)
    target = torch.full((N, images), -1)
    step = max(1, PAIRS_AT_ONCE // max(1, N * M))
    for start in range(0, images if N and M else 0, step):
        i = slice(start, start + step)
        agreement[:, i], target[:, i] = nearest(
            _images_last(detections[i]), _images_last(targets[i]), ~target_mask[i].cpu().mT.contiguous()
        )
    none = agreement == -torch.inf
    return Candidates(agreement.masked_fill_(none, torch.nan).mT, target.masked_fill_(none, -1).mT)


def _images_last(x: Float[Tensor, "I N D"]) -> Float[Tensor, "D N I"]:
    """Images last: the innermost loops are then long and contiguous even if the sets are small."""
    images, N, D = x.shape
    matrix = x.detach().cpu().reshape(images, N * D).mT.contiguous()  # torch transposes a matrix fastest
    return matrix.view(N, D, images).transpose(0, 1)
