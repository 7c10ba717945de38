"""What a prediction got right: each predicted element beside the true one it stands for, and each attribute checked."""

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
"""A box is right if it overlaps a true one, not yet taken, by this IoU."""
NEAR = 0.5
"""A number of an object is right if it is off by no more than this, in the data's own units …"""
NEAR_PART = 0.1
"""… or, where a data set has scaled its numbers to its range, by this part of the range."""


@dataclass(frozen=True)
class Cell:
    """One number or word of a table of objects."""

    text: str
    wrong: bool = False


@dataclass(frozen=True)
class ObjectRow:
    """One object: the true one it was matched with (None: there is none), what was predicted, and how sure it is."""

    target: int | None
    cells: tuple[Cell, ...]
    score: float
    element: int = -1
    """Which predicted element it is."""

    @property
    def present(self) -> bool:
        return self.score > 0.5

    @property
    def right(self) -> bool:
        """A true object, found, with every attribute as it should be."""
        return self.target is not None and self.present and not any(c.wrong for c in self.cells)


def columns(task: SetTask) -> list[str]:
    """The heads of a table of objects: its numbers together, then the attributes in the order they are spoken."""
    numbers = ", ".join(task.feature_names[i] for i in task.numbers)
    return [*([numbers] if numbers else []), *_attributes(task)]


def judge_objects(task: SetTask, predicted: Sets, target: Sets, sample: int) -> list[ObjectRow]:
    """The predicted objects of one sample in the order of the true ones, then those that are too many.

    Prediction and target are matched by the Huber cost of all features and the mask.
    """
    guess, truth = predicted[sample], target[sample].pad_to(max(predicted.elements.shape[1], target.elements.shape[1]))
    guess = guess.pad_to(truth.elements.shape[1]).detach().to("cpu")
    truth = truth.to("cpu", guess.elements.dtype)
    serves = assign(PairCost().matrix(guess.features_with_mask, truth.features_with_mask))[0]  # (N,)
    scores = guess.mask[0].float().clamp(0, 1)
    there = truth.mask[0] > 0.5
    rows = []
    for j, i in enumerate(serves.tolist()):
        if bool(there[j]):
            cells = _cells(task, guess.elements[0, i], truth.elements[0, j])
            rows.append(ObjectRow(j, cells, float(scores[i]), i))
    extra = [(float(scores[i]), i) for j, i in enumerate(serves.tolist()) if not bool(there[j])]
    for score, i in sorted(extra, reverse=True):
        if score > 0.5:
            rows.append(ObjectRow(None, _cells(task, guess.elements[0, i], None), score, i))
    return rows


def true_objects(task: SetTask, target: Sets, sample: int) -> list[ObjectRow]:
    """The true objects as rows of the same table."""
    elements = target[sample].to_list()[0].cpu()
    return [ObjectRow(j, _cells(task, e, e), 1.0, j) for j, e in enumerate(elements)]


def judge_boxes(predicted: Sets, target: Sets, sample: int, groups: Groups = NO_GROUPS) -> list[bool]:
    """For each predicted box, surest first: does it overlap a true one of its kind that no surer one has claimed?"""
    boxes, truth = (sets.elements[[sample]].detach().float() for sets in (predicted, target))
    found = box_candidates(boxes, truth, target.mask[[sample]] > 0.5, groups=groups)
    scores = predicted.mask[sample].detach().float().cpu()
    right, taken = [False] * len(scores), set()
    for i in scores.argsort(descending=True, stable=True).tolist():
        best = int(found.target[0, i])
        if scores[i] > 0.5 and float(found.agreement[0, i]) >= OVERLAP and best not in taken:
            taken.add(best)
            right[i] = True
    return right


def _attributes(task: SetTask) -> tuple[str, ...]:
    return task.spoken or tuple(task.groups)


def _cells(task: SetTask, guess: Tensor, truth: Tensor | None) -> tuple[Cell, ...]:
    numbers, cells = task.numbers, []
    values = task.denormalize(guess)
    if numbers:
        text = ", ".join(f"{float(values[i]):.2f}" for i in numbers)
        cells.append(Cell(text, truth is None or _far(task, guess[numbers], truth[numbers], numbers)))
    for name in _attributes(task):
        first, end = task.groups[name]
        said = int(guess[first:end].argmax())
        wrong = truth is None or said != int(truth[first:end].argmax())
        cells.append(Cell(task.categories[name][said], wrong))
    return tuple(cells)


def _far(task: SetTask, guess: Tensor, truth: Tensor, numbers: list[int]) -> bool:
    off = guess - truth
    if task.offset is not None or task.scale is None:  # scaled to the data's range
        return bool(off.abs().max() > NEAR_PART)
    off = off * torch.tensor([task.scale[i] for i in numbers], dtype=off.dtype)
    return bool(off.norm() > NEAR)
