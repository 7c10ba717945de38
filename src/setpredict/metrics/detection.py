"""Average precision as metrics that are updated batch by batch, on any number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric

from setpredict.core.errors import UserError
from setpredict.metrics import average_precision as ap
from setpredict.metrics.candidates import NO_GROUPS, Candidates, Groups, box_candidates, check_finite, state_candidates
from setpredict.metrics.rows import as_rows, ensure_rows, join_rows
from setpredict.metrics.separate import keep_separate
from setpredict.sets import Sets

COLUMNS = 5
"""A row is one detection: image, element, candidate, agreement, score."""


class PooledAveragePrecision(Metric):
    """Average precision of the detections of all images of all batches and ranks; see the two subclasses.

    The mask of a predicted set is the score. With `index`, the images' numbers in the data set, ties are broken the
    same way on any number of ranks; without, by order of arrival, rank after rank.
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = True
    rows: list[Tensor]
    ground_truths: Tensor

    def __init__(
        self,
        thresholds: Sequence[float],
        floors: tuple[float, ...],
        candidates: Callable[[Tensor, Tensor, Tensor], Candidates],
        features: int | None = None,
        **kwargs,
    ) -> None:
        """`candidates` of elements, targets and the target mask; `floors` are the thresholds on their agreement."""
        super().__init__(**kwargs)
        self.floors, self.candidates, self.features = floors, candidates, features
        self.add_state("rows", default=[], dist_reduce_fx="cat")
        self.add_state("ground_truths", torch.tensor(0), dist_reduce_fx="sum")
        keep_separate(self)

    def update(self, predicted: Sets, target: Sets, index: Int[Tensor, " B"] | None = None) -> None:
        """Add a batch of images with their predicted and true sets."""
        if len(predicted) != len(target):
            raise ValueError(f"{len(predicted)} predicted sets for {len(target)} targets")
        features = self.features or target.elements.shape[2]
        for name, sets in (("predicted", predicted), ("target", target)):
            if sets.elements.shape[2] != features:
                raise UserError(f"{name} elements have {sets.elements.shape[2]} features, expected {features}")
        mask = target.present
        candidates = self.candidates(predicted.elements, target.elements, mask)
        self.rows.append(_detections(candidates, predicted, index, self.device))
        self.ground_truths += mask.sum().to(self.device)

    def compute(self) -> Float[Tensor, " thresholds"]:
        """AP in [0, 1] at each threshold (a scalar for only one, as in torchmetrics); NaN without ground truths."""
        image, element, target, agreement, scores = join_rows(self.rows, COLUMNS).unbind(1)  # (K,) each
        image, target = image.long(), target.long()
        first = element == 0
        number = torch.cumsum(first, dim=0) - 1  # the images numbered in order of arrival
        if bool((image >= 0).any()):
            if bool((image < 0).any()):
                raise ValueError("some batches came with an index and others without: pass it always or never")
            ap.image_order(image[first])  # raises if an image occurs twice
            order = torch.sort(image, stable=True).indices  # elements stay in order within an image
            number, target, agreement, scores = number[order], target[order], agreement[order], scores[order]
        width = int(target.max()) + 1 if len(target) else 1
        unique = number * width + target
        return ap.pooled_average_precision(agreement, scores, unique, int(self.ground_truths), self.floors)

    def sync(self, *args, **kwargs) -> None:
        ensure_rows(self.rows, COLUMNS, self.device)
        super().sync(*args, **kwargs)


class BoxAveragePrecision(PooledAveragePrecision):
    """`box_average_precision` of all images of all batches and ranks; the mask of a predicted set is the score.

    Elements are boxes (x0, y0, x1, y1), followed by the one-hot attributes of `groups` if there are any.

    >>> target = Sets.from_list([[[0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0]]])
    >>> predicted = Sets(target.elements, torch.tensor([[0.9, 0.8]]))
    >>> metric = BoxAveragePrecision(thresholds=(0.5, 0.9))
    >>> metric.update(predicted, target, index=torch.tensor([0]))
    >>> metric.compute()
    tensor([1., 1.], dtype=torch.float64)
    """

    def __init__(
        self,
        thresholds: Sequence[float] = ap.BOX_THRESHOLDS,
        *,
        plus_one: bool = False,
        groups: Groups = NO_GROUPS,
        **kwargs,
    ) -> None:
        candidates = partial(box_candidates, plus_one=plus_one, groups=dict(groups))
        features = max([4, *(stop for _, stop in groups.values())])
        super().__init__(thresholds, ap.iou_floors(thresholds), candidates, features, **kwargs)


class StateAveragePrecision(PooledAveragePrecision):
    """`state_average_precision` of all images of all batches and ranks; the mask of a predicted set is the score.

    >>> target = Sets.from_list([[[0.0, 1.0, 0.0], [0.5, 0.0, 1.0]]])
    >>> predicted = Sets(target.elements + 0.25, torch.tensor([[0.9, 0.8]]))
    >>> metric = StateAveragePrecision((1.0, 0.125), coordinates=1, groups={"kind": (1, 3)})
    >>> metric.update(predicted, target, index=torch.tensor([0]))
    >>> metric.compute()
    tensor([1., 0.], dtype=torch.float64)
    """

    def __init__(
        self,
        thresholds: Sequence[float] = ap.STATE_THRESHOLDS,
        *,
        coordinates: int,
        groups: Groups,
        scale: float | Sequence[float] = 1.0,
        **kwargs,
    ) -> None:
        candidates = partial(state_candidates, coordinates=coordinates, groups=dict(groups), scale=scale)
        super().__init__(thresholds, ap.distance_floors(thresholds), candidates, **kwargs)


def _detections(
    candidates: Candidates, predicted: Sets, index: Tensor | None, device: torch.device
) -> Float[Tensor, "K 5"]:
    """One row per detection of a batch; an image without a number has −1."""
    check_finite("score", predicted.mask.float())
    images, N = predicted.mask.shape
    if index is None:
        index = torch.full((images,), -1)
    elif index.shape != (images,) or bool((index < 0).any()):
        raise ValueError(f"index must hold a number ≥ 0 for each of the {images} images, got {index.tolist()}")
    image = index.cpu()[:, None].expand(images, N)
    element = torch.arange(N).expand(images, N)
    scores = predicted.mask.detach().cpu().double()  # not every device has float64
    return as_rows(device, image, element, candidates.target, candidates.agreement, scores)
