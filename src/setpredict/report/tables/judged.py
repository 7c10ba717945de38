"""What a prediction got right: each predicted element matched with a true one, and each attribute compared."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from setpredict.data.task import SetTask
from setpredict.matching import PairCost, assign
from setpredict.metrics import box_candidates
from setpredict.metrics.candidates import NO_GROUPS, Groups
from setpredict.sets import Sets

OVERLAP = 0.5
"""A box is right if its IoU with a true box that is not matched yet is at least this."""
NEAR = 0.5
"""An object's numbers are right if they are off by at most this, in the data's own units …"""
NEAR_PART = 0.1
"""… or, where numbers are scaled to their range in the data, by at most this fraction of the range."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table of objects."""

    text: str
    wrong: bool = False


@dataclass(frozen=True)
class ObjectRow:
    """One predicted object: the true one it is matched with (None: no true one is left), its cells, and its mask."""

    target: int | None
    cells: tuple[Cell, ...]
    score: float
    element: int = -1
    """Its index among the predicted elements."""

    @property
    def present(self) -> bool:
        return self.score > 0.5

    @property
    def right(self) -> bool:
        """Whether it is matched with a true object, present, and has no wrong attribute."""
        return self.target is not None and self.present and not any(c.wrong for c in self.cells)


def columns(task: SetTask) -> list[str]:
    """The column heads of a table of objects: all numbers together, then one column per attribute."""
    numbers = ", ".join(task.feature_names[i] for i in task.numbers)
    return [*([numbers] if numbers else []), *_attributes(task)]


def judge_objects(task: SetTask, predicted: Sets, target: Sets, sample: int) -> list[ObjectRow]:
    """The predicted objects of one sample in the order of the true ones, then the surplus ones.

    Prediction and target are matched by the Huber cost of all features and the mask.
    """
    size = max(predicted.elements.shape[1], target.elements.shape[1])
    ours = predicted[sample].pad_to(size).detach().to("cpu")
    truth = target[sample].pad_to(size).to("cpu", ours.elements.dtype)
    matched = assign(PairCost().matrix(ours.features_with_mask, truth.features_with_mask))[0]  # (N,), true to predicted
    scores = ours.mask[0].float().clamp(0, 1)
    present = truth.mask[0] > 0.5
    rows = []
    for j, i in enumerate(matched.tolist()):
        if bool(present[j]):
            cells = _cells(task, ours.elements[0, i], truth.elements[0, j])
            rows.append(ObjectRow(j, cells, float(scores[i]), i))
    surplus = [(float(scores[i]), i) for j, i in enumerate(matched.tolist()) if not bool(present[j])]
    for score, i in sorted(surplus, reverse=True):
        if score > 0.5:
            rows.append(ObjectRow(None, _cells(task, ours.elements[0, i], None), score, i))
    return rows


def true_objects(task: SetTask, target: Sets, sample: int) -> list[ObjectRow]:
    """The true objects of one sample as rows of the same table."""
    elements = target[sample].to_list()[0].cpu()
    return [ObjectRow(j, _cells(task, e, e), 1.0, j) for j, e in enumerate(elements)]


def judge_boxes(predicted: Sets, target: Sets, sample: int, groups: Groups = NO_GROUPS) -> list[bool]:
    """Whether each predicted box is right: it overlaps a true box of its category, and no surer box is matched with it.

    Boxes are matched greedily, in the order of their masks.
    """
    boxes, truth = (sets.elements[[sample]].detach().float() for sets in (predicted, target))
    found = box_candidates(boxes, truth, target.mask[[sample]] > 0.5, groups=groups)
    scores = predicted.mask[sample].detach().float().cpu()
    right, matched = [False] * len(scores), set()
    for i in scores.argsort(descending=True, stable=True).tolist():
        best = int(found.target[0, i])
        if scores[i] > 0.5 and float(found.agreement[0, i]) >= OVERLAP and best not in matched:
            matched.add(best)
            right[i] = True
    return right


def _attributes(task: SetTask) -> tuple[str, ...]:
    return task.spoken or tuple(task.groups)


def _cells(task: SetTask, predicted: Tensor, truth: Tensor | None) -> tuple[Cell, ...]:
    numbers, cells = task.numbers, []
    values = task.denormalize(predicted)
    if numbers:
        text = ", ".join(f"{float(values[i]):.2f}" for i in numbers)
        cells.append(Cell(text, truth is None or _is_far(task, predicted[numbers], truth[numbers], numbers)))
    for name in _attributes(task):
        first, end = task.groups[name]
        category = int(predicted[first:end].argmax())
        wrong = truth is None or category != int(truth[first:end].argmax())
        cells.append(Cell(task.categories[name][category], wrong))
    return tuple(cells)


def _is_far(task: SetTask, predicted: Tensor, truth: Tensor, numbers: list[int]) -> bool:
    difference = predicted - truth
    if task.offset is not None or task.scale is None:  # scaled to the range of the data
        return bool(difference.abs().max() > NEAR_PART)
    difference = difference * torch.tensor([task.scale[i] for i in numbers], dtype=difference.dtype)
    return bool(difference.norm() > NEAR)
