"""Average precision as metrics: batches come in one after another, on any number of ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric

from setpredict.metrics.average_precision import (
    BOX_THRESHOLDS,
    STATE_THRESHOLDS,
    distance_floors,
    image_order,
    iou_floors,
    pooled_average_precision,
)
from setpredict.metrics.candidates import (
    CLEVR_GROUPS,
    NO_GROUPS,
    Candidates,
    Groups,
    box_candidates,
    check_finite,
    state_candidates,
)
from setpredict.metrics.rows import as_rows, join_rows, offer_rows
from setpredict.sets import Sets

COLUMNS = 5
"""A row is one detection: image, element, candidate, agreement, score."""


class BoxAveragePrecision(Metric):
    """`box_average_precision` of all images of all batches and ranks; the mask of a predicted set is the score.

    With `index`, the images' numbers in the data set, ties break alike on every number of ranks; without, by order of
    arrival, rank after rank.

    >>> target = Sets.from_list([[[0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0]]])
    >>> predicted = Sets(target.elements, torch.tensor([[0.9, 0.8]]))
    >>> metric = BoxAveragePrecision(thresholds=(0.5, 0.9))
    >>> metric.update(predicted, target, index=torch.tensor([0]))
    >>> metric.compute()
    tensor([1., 1.], dtype=torch.float64)
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = True
    rows: list[Tensor]
    ground_truths: Tensor

    def __init__(
        self,
        thresholds: Sequence[float] = BOX_THRESHOLDS,
        *,
        plus_one: bool = False,
        groups: Groups = NO_GROUPS,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.thresholds, self.plus_one, self.groups = tuple(thresholds), plus_one, dict(groups)
        iou_floors(thresholds)  # a wrong one is better told now than after an epoch
        self.add_state("rows", default=[], dist_reduce_fx="cat")
        self.add_state("ground_truths", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, predicted: Sets, target: Sets, index: Int[Tensor, " B"] | None = None) -> None:
        """Add a batch of images with predicted and true boxes (x0, y0, x1, y1), attributes behind them if any."""
        _check_batch(predicted, target, features=max([4, *(stop for _, stop in self.groups.values())]))
        mask = _present(target)
        options = {"plus_one": self.plus_one, "groups": self.groups}
        candidates = box_candidates(predicted.elements, target.elements, mask, **options)
        self.rows.append(_detections(candidates, predicted, index, self.device))
        self.ground_truths += mask.sum().to(self.device)

    def compute(self) -> Float[Tensor, " thresholds"]:
        """AP in [0, 1] at each of `thresholds`; NaN without ground truths."""
        return _average_precision(self.rows, self.ground_truths, iou_floors(self.thresholds))

    def sync(self, *args, **kwargs) -> None:
        offer_rows(self.rows, COLUMNS, self.device)
        super().sync(*args, **kwargs)


class StateAveragePrecision(Metric):
    """`state_average_precision` of all images of all batches and ranks; the mask of a predicted set is the score.

    With `index`, the images' numbers in the data set, ties break alike on every number of ranks; without, by order of
    arrival, rank after rank.

    >>> target = Sets.from_list([[[0.0, 1.0, 0.0], [0.5, 0.0, 1.0]]])
    >>> predicted = Sets(target.elements + 0.25, torch.tensor([[0.9, 0.8]]))
    >>> metric = StateAveragePrecision((1.0, 0.125), coordinates=1, scale=1.0, groups={"kind": (1, 3)})
    >>> metric.update(predicted, target, index=torch.tensor([0]))
    >>> metric.compute()
    tensor([1., 0.], dtype=torch.float64)
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = True
    rows: list[Tensor]
    ground_truths: Tensor

    def __init__(
        self,
        thresholds: Sequence[float] = STATE_THRESHOLDS,
        *,
        coordinates: int = 3,
        scale: float | Sequence[float] = 3.0,
        groups: Groups = CLEVR_GROUPS,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.thresholds = tuple(thresholds)
        self.coordinates, self.scale, self.groups = coordinates, scale, dict(groups)
        distance_floors(thresholds)
        self.add_state("rows", default=[], dist_reduce_fx="cat")
        self.add_state("ground_truths", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, predicted: Sets, target: Sets, index: Int[Tensor, " B"] | None = None) -> None:
        """Add a batch of images with predicted and true object states."""
        _check_batch(predicted, target, features=target.elements.shape[2])
        mask = _present(target)
        layout = {"coordinates": self.coordinates, "scale": self.scale, "groups": self.groups}
        candidates = state_candidates(predicted.elements, target.elements, mask, **layout)
        self.rows.append(_detections(candidates, predicted, index, self.device))
        self.ground_truths += mask.sum().to(self.device)

    def compute(self) -> Float[Tensor, " thresholds"]:
        """AP in [0, 1] at each of `thresholds`; NaN without ground truths."""
        return _average_precision(self.rows, self.ground_truths, distance_floors(self.thresholds))

    def sync(self, *args, **kwargs) -> None:
        offer_rows(self.rows, COLUMNS, self.device)
        super().sync(*args, **kwargs)


def _check_batch(predicted: Sets, target: Sets, features: int) -> None:
    if len(predicted) != len(target):
        raise ValueError(f"{len(predicted)} predicted sets for {len(target)} targets")
    for name, sets in (("predicted", predicted), ("target", target)):
        if sets.elements.shape[2] != features:
            raise ValueError(f"{name} elements have {sets.elements.shape[2]} features, expected {features}")


def _present(target: Sets) -> Tensor:
    return target.mask if target.mask.dtype == torch.bool else target.mask > 0.5


def _detections(
    candidates: Candidates, predicted: Sets, index: Tensor | None, device: torch.device
) -> Float[Tensor, "K 5"]:
    """A row for each detection of a batch; an image without a number has −1."""
    check_finite("score", predicted.mask.float())
    images, N = predicted.mask.shape
    if index is None:
        index = torch.full((images,), -1)
    elif index.shape != (images,) or bool((index < 0).any()):
        raise ValueError(f"index must hold a number from 0 for each of the {images} images, got {index.tolist()}")
    image = index.cpu()[:, None].expand(images, N)
    element = torch.arange(N).expand(images, N)
    scores = predicted.mask.detach().cpu().double().clamp(0, 1)  # not every device has float64
    return as_rows(device, image, element, candidates.target, candidates.agreement, scores)


def _average_precision(
    rows: list[Tensor] | Tensor, ground_truths: Tensor, floors: Sequence[float]
) -> Float[Tensor, " thresholds"]:
    image, element, target, agreement, scores = join_rows(rows, COLUMNS).unbind(1)  # (K,) each
    image, target = image.long(), target.long()
    first = element == 0
    start = torch.cumsum(first, dim=0) - 1  # which image of the arrived ones each row belongs to
    if bool((image >= 0).any()):
        if bool((image < 0).any()):
            raise ValueError("some batches came with an index and others without: give it always or never")
        image_order(image[first])  # refuses an image that came twice
        order = torch.sort(image, stable=True).indices  # elements stay in order within an image
        start, target, agreement, scores = start[order], target[order], agreement[order], scores[order]
    width = int(target.max()) + 1 if len(target) else 1
    unique = start * width + target
    return pooled_average_precision(agreement, scores, unique, int(ground_truths), floors)
