"""What a prediction got right: each predicted element matched with a true one, and each attribute compared."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from setpredict.data.task import SetTask, numbers_as_text
from setpredict.matching import PairCost, assign
from setpredict.metrics import box_candidates
from setpredict.metrics.candidates import NO_GROUPS, Groups
from setpredict.metrics.matched import match
from setpredict.sets import Sets

OVERLAP = 0.5
"""A box is right if its IoU with a true box that is not matched yet is at least this."""
NEAR = 0.5
"""An object's numbers are right if they are off by at most this, in the data's own units …"""
NEAR_PART = 0.1
"""… or, where numbers are scaled to their range in the data, by at most this fraction of the range."""

NEAR_POINT = 0.03
"""A point is recovered if it is at most this far from the true point that it is matched with."""


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
    """The predicted objects of one sample in the order of the true ones, then the surplus ones."""
    matched = match_elements(predicted, target, sample)
    rows = []
    for j, i in zip(matched.target, matched.order):
        truth, score = None if j is None else matched.truth.elements[0, j], float(matched.scores[i])
        if j is not None or score > 0.5:
            rows.append(ObjectRow(j, _cells(task, matched.predicted.elements[0, i], truth), score, i))
    return rows


@dataclass(frozen=True)
class MatchedElements:
    """The sets of one sample, padded to the same size N, and which elements belong together."""

    predicted: Sets
    truth: Sets
    order: list[int]
    """The N predicted elements, in the order of the true ones that they are matched with; then the surplus ones, those
    with the largest mask first."""
    target: list[int | None]
    """For each of them the true one; None for surplus ones."""

    @property
    def scores(self) -> Tensor:
        """Masks of the predicted elements from 0 to 1, (N,)."""
        return self.predicted.mask[0].float().clamp(0, 1)


def match_elements(predicted: Sets, target: Sets, sample: int) -> MatchedElements:
    """Match the predicted elements of one sample with the true ones by the Huber cost of all features and the mask."""
    size = max(predicted.elements.shape[1], target.elements.shape[1])
    ours = predicted[sample].pad_to(size).detach().to("cpu")
    truth = target[sample].pad_to(size).to("cpu", ours.elements.dtype)
    matched = assign(PairCost().matrix(ours.features_with_mask, truth.features_with_mask))[0]  # (N,), true to predicted
    present = (truth.mask[0] > 0.5).tolist()
    scores = ours.mask[0].float().clamp(0, 1).tolist()
    pairs = [(j, i) for j, i in enumerate(matched.tolist()) if present[j]]
    surplus = sorted(((scores[i], i) for j, i in enumerate(matched.tolist()) if not present[j]), reverse=True)
    order = [i for _, i in pairs] + [i for _, i in surplus]
    return MatchedElements(ours, truth, order, [j for j, _ in pairs] + [None] * len(surplus))


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


def judge_points(task: SetTask, predicted: Sets, target: Sets, sample: int) -> list[bool]:
    """Whether each predicted point is recovered: present, matched one to one with a true point, and near it."""
    ours, truth, numbers = predicted[sample], target[sample], task.numbers
    pairs = match(ours, truth, numbers)[0][0].tolist()
    right = [False] * ours.mask.shape[1]
    for j, i in enumerate(pairs):
        if i >= 0:
            apart = (ours.elements[0, i, numbers] - truth.elements[0, j, numbers].to(ours.elements)).norm()
            right[i] = bool(apart <= NEAR_POINT)
    return right


def count_right(task: SetTask, predicted: Sets, target: Sets, sample: int) -> int | None:
    """The number of true elements of one sample that were found; None where elements are not judged one by one."""
    if task.kind == "boxes":
        return sum(judge_boxes(predicted, target, sample, task.groups))
    if task.kind == "states" or (task.kind == "vectors" and task.groups):
        return sum(row.right for row in judge_objects(task, predicted, target, sample))
    return None if task.kind == "vectors" else sum(judge_points(task, predicted, target, sample))


def _attributes(task: SetTask) -> tuple[str, ...]:
    return task.spoken or tuple(task.groups)


def _cells(task: SetTask, predicted: Tensor, truth: Tensor | None) -> tuple[Cell, ...]:
    numbers, cells = task.numbers, []
    values = task.denormalize(predicted)
    if numbers:
        text = numbers_as_text((float(values[i]) for i in numbers), task.decimals)
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
