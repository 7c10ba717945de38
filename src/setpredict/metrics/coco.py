"""COCO's average precision of boxes: per class, then averaged over classes and over IoU from 0.50 to 0.95.

The pooled AP of `average_precision` ranks the detections of all classes together; this one is what pycocotools gives.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics import Metric

from setpredict.metrics.candidates import NO_GROUPS, Groups, box_iou, check_finite
from setpredict.metrics.rows import as_rows, ensure_rows, join_rows
from setpredict.metrics.separate import keep_separate
from setpredict.sets import Sets

THRESHOLDS = tuple(round(0.5 + 0.05 * i, 2) for i in range(10))
RECALLS = np.linspace(0, 1, 101)
MOST_DETECTIONS = 100
"""Of one image and class, the highest scores count."""
COLUMNS = 4 + len(THRESHOLDS)
"""A row is one detection: image, element, class, score, and whether it is true at each threshold."""


@dataclass
class CocoPrecision:
    """COCO's numbers, from 0 to 1; NaN without ground truths."""

    ap: float
    """The mean over classes and IoU thresholds 0.50, 0.55, …, 0.95: COCO's AP."""
    ap50: float
    ap75: float
    classes: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Per class that occurs in the ground truth: its AP (0.50 to 0.95) and its AP50."""


class CocoAveragePrecision(Metric):
    """COCO's AP of the boxes (x0, y0, x1, y1, categories) of all batches and ranks; the mask of a prediction is its
    score, and an element whose mask is 0 is no detection.

    With several groups of categories, a class is a combination of them, numbered as by `numpy.ravel_multi_index`.

    >>> target = Sets.from_list([[[0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0]]])
    >>> metric = CocoAveragePrecision()
    >>> metric.update(Sets(target.elements, torch.tensor([[0.9, 0.8]])), target)
    >>> metric.compute()
    CocoPrecision(ap=1.0, ap50=1.0, ap75=1.0, classes={0: (1.0, 1.0)})
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = True
    rows: list[Tensor]
    ground_truths: Tensor

    def __init__(self, groups: Groups = NO_GROUPS, **kwargs) -> None:
        super().__init__(**kwargs)
        self.groups = dict(groups)
        classes = int(np.prod([end - first for first, end in self.groups.values()], initial=1))
        self.add_state("rows", default=[], dist_reduce_fx="cat")
        self.add_state("ground_truths", torch.zeros(classes, dtype=torch.long), dist_reduce_fx="sum")
        keep_separate(self)

    def update(self, predicted: Sets, target: Sets, index: Int[Tensor, " B"] | None = None) -> None:
        """Add a batch of images; with `index`, their numbers, ties of scores are broken by it as pycocotools does."""
        check_finite("box", predicted.elements)
        check_finite("score", predicted.mask.float())
        elements, scores = predicted.elements.detach().cpu().double(), predicted.mask.detach().cpu().double()
        order = scores.argsort(dim=1, descending=True, stable=True)
        scores = scores.gather(1, order)
        elements = elements.gather(1, order[..., None].expand_as(elements))
        wanted = (target.mask > 0.5).cpu()
        truth = target.elements.detach().cpu().double()
        kinds, true_kinds = _classes(elements, self.groups), _classes(truth, self.groups).masked_fill(~wanted, -1)
        hits = true_detections(elements[..., :4], kinds, truth[..., :4], true_kinds)  # (B, N, thresholds)
        keep = (scores > 0) & (_rank_in_class(kinds) < MOST_DETECTIONS)
        image = torch.arange(len(scores)) if index is None else index.cpu()
        columns = [image[:, None].expand_as(kinds), order, kinds, scores, *hits.unbind(2)]
        self.rows.append(as_rows(self.device, *(c[keep] for c in columns)))
        counted = torch.bincount(true_kinds[wanted], minlength=len(self.ground_truths))
        self.ground_truths += counted.to(self.device)

    def compute(self) -> CocoPrecision:
        """The average precisions over everything that was added."""
        rows = join_rows(self.rows, COLUMNS).numpy()
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]  # by image, then by element
        counts = self.ground_truths.cpu().numpy()
        found: dict[int, np.ndarray] = {}
        for kind in np.flatnonzero(counts).tolist():
            own = rows[rows[:, 2] == kind]
            own = own[np.argsort(-own[:, 3], kind="stable")]
            found[kind] = interpolated_precision(own[:, 4:] > 0.5, int(counts[kind]))  # (thresholds,)
        if not found:
            return CocoPrecision(float("nan"), float("nan"), float("nan"))
        mean = np.mean(list(found.values()), axis=0)
        classes = {kind: (float(ap.mean()), float(ap[0])) for kind, ap in found.items()}
        return CocoPrecision(float(mean.mean()), float(mean[0]), float(mean[THRESHOLDS.index(0.75)]), classes)

    def sync(self, *args, **kwargs) -> None:
        ensure_rows(self.rows, COLUMNS, self.device)
        super().sync(*args, **kwargs)


def true_detections(
    boxes: Float[Tensor, "B N 4"], kinds: Int[Tensor, "B N"], truth: Float[Tensor, "B M 4"], true: Int[Tensor, "B M"]
) -> Bool[Tensor, "B N T"]:
    """Whether each detection is true at each threshold.

    Detections are in order of their score. Each takes the ground truth of its class that it overlaps most, among those
    not taken yet and with an IoU of at least the threshold; the last one of equal overlaps.
    """
    (B, N), M = kinds.shape, true.shape[1]
    boxes = torch.cat([boxes[..., :2], boxes[..., 2:].maximum(boxes[..., :2])], dim=2)
    iou = box_iou(boxes, truth).masked_fill(kinds[:, :, None] != true[:, None, :], -1.0)  # (B, N, M)
    floors = torch.tensor(THRESHOLDS, dtype=torch.float64)[:, None]
    free = torch.ones(B, len(THRESHOLDS), M, dtype=torch.bool)
    hits = torch.zeros(B, N, len(THRESHOLDS), dtype=torch.bool)
    for n in range(N if M else 0):
        allowed = free & (iou[:, n, None, :] >= floors)  # (B, T, M)
        best = iou[:, n, None, :].expand_as(allowed).masked_fill(~allowed, -1.0)
        chosen = M - 1 - best.flip(2).argmax(dim=2, keepdim=True)  # (B, T, 1), the last of equal ones
        hits[:, n] = allowed.any(dim=2)
        free &= ~(torch.zeros_like(free).scatter_(2, chosen, True) & allowed)
    return hits


def interpolated_precision(hits: np.ndarray, ground_truths: int) -> np.ndarray:
    """The mean over 101 recalls of the highest precision at that recall or more, for ranked detections (K, T)."""
    true = np.cumsum(hits, axis=0)  # (K, T)
    precision = true / np.arange(1, len(hits) + 1)[:, None]
    precision = np.maximum.accumulate(precision[::-1], axis=0)[::-1]
    result = np.zeros(hits.shape[1])
    for t in range(hits.shape[1]):
        at = np.searchsorted(true[:, t] / ground_truths, RECALLS, side="left")
        result[t] = precision[at[at < len(hits)], t].sum() / len(RECALLS)
    return result


def _classes(elements: Float[Tensor, "B N D"], groups: Groups) -> Int[Tensor, "B N"]:
    number = torch.zeros(elements.shape[:2], dtype=torch.long)
    for first, end in groups.values():
        number = number * (end - first) + elements[..., first:end].argmax(dim=2)
    return number


def _rank_in_class(kinds: Int[Tensor, "B N"]) -> Int[Tensor, "B N"]:
    """How many earlier elements of the same set have the same class."""
    if kinds.shape[1] <= MOST_DETECTIONS:
        return torch.zeros_like(kinds)
    same = kinds[:, :, None] == kinds[:, None, :]
    return same.tril(-1).sum(dim=2)
