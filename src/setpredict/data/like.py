"""Other data for a trained model: the same features, categories and units as the data that the model was trained on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from setpredict.core.errors import UserError
from setpredict.data import load
from setpredict.data.batch import Batch, Split
from setpredict.data.locate import annotation_file, open_path
from setpredict.data.plain import target_sets, unaugmented
from setpredict.data.splits import StoredSplit
from setpredict.data.task import SPLITS, SetTask
from setpredict.sets import Sets


def open_like(
    path: str | os.PathLike,
    like: SetTask,
    *,
    target: str = "state",
    boxes: str = "paper",
    seed: int = 0,
    allow_outside: bool = False,
) -> SetTask:
    """The data set at a path for a model that was trained on `like` (its description is enough).

    Without a test split of its own, all samples of the data set are its test split.

    Args:
        path: Anything that `open_path` can open.
        like: The model's task: features, categories, units and image size are converted to its own.
        target, boxes: For CLEVR's folders, as in `clevr`.
        seed: Selects the validation samples of data without a val split.
        allow_outside: Accept images outside the data set's folder.
    """
    images: dict[str, Any] = {"seed": seed, "allow_outside": allow_outside}
    if like.input_kind == "image":
        images["size"] = like.input_size
    file = annotation_file(Path(path).expanduser())
    if file is not None:
        same = like.input_kind == "image" and len(like.groups) == 1
        names = like.categories[next(iter(like.groups))] if same else None
        task = load("coco", folder=file, categories=names, **images)
    else:
        task = open_path(path, target=target, boxes=boxes, without_train=True, **images)  # pyright: ignore[reportArgumentType]
    return adapted(_complete(task), like)


def adapted(task: SetTask, like: SetTask) -> SetTask:
    """A data set with the features, categories and units of another one; a UserError if it has others.

    Sets may be larger than in the other one.
    """
    if (task.input_kind, task.input_size) != (like.input_kind, like.input_size):
        theirs, ours = (f"{t.input_kind}s of {t.input_size}" for t in (task, like))
        raise UserError(f"{task.name} has {theirs} as inputs, but the model takes {ours}")
    largest, most = task.input_capacity, like.input_capacity
    if task.input_kind == "set" and largest > most:
        raise UserError(f"{task.name} has inputs of {largest} elements, but the model takes at most {most}")
    task = _with_groups(task, like)
    conversion = _conversion(task, like)
    splits: dict[str, Any] = {
        name: ConvertedSplit(unaugmented(task.split(name)), conversion, task, like) for name in SPLITS
    }
    if task.test is task.val:
        splits["test"] = splits["val"]
    return replace(like, name=task.name, max_size=task.max_size, variable=like.variable or task.variable, **splits)


@dataclass(frozen=True)
class Conversion:
    """How features become those of another data set: new = old × scale + offset, in another order."""

    source: np.ndarray  # (D,) the old feature of each new one; −1: always 0
    scale: Float[Tensor, " D"]
    offset: Float[Tensor, " D"]

    def __call__(self, sets: Sets) -> Sets:
        index = torch.from_numpy(self.source)
        taken = sets.elements[..., index.clamp(min=0)] * (index >= 0)
        elements = taken * self.scale + self.offset
        return Sets(elements * (sets.mask > 0)[..., None], sets.mask)


@dataclass(frozen=True, eq=False)
class ConvertedSplit:
    """A split whose targets and inputs have the features and units of another data set."""

    split: Split
    conversion: Conversion
    task: SetTask
    like: SetTask

    def __len__(self) -> int:
        return len(self.split)

    def sets(self, indices: np.ndarray) -> Sets:
        return self.conversion(target_sets(self.split, indices))

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        batch = self.split.batch(indices, epoch)
        return Batch(self._input(batch.input), self.conversion(batch.target), batch.index, batch.centers)

    def _input(self, input: Tensor | Sets) -> Tensor | Sets:
        if self.task.input_kind == "image":
            return input
        exact = self.like.normalize_input(self.task.denormalize_input(input.to(torch.float64)))
        return exact.to(torch.float32)


def _complete(task: SetTask) -> SetTask:
    """The task with all its samples as val and test, and none to train, if it has neither val nor test of its own."""
    train, val = (unaugmented(task.split(name)) for name in ("train", "val"))
    if task.test is not task.val or not isinstance(train, StoredSplit) or not isinstance(val, StoredSplit):
        return task
    if train.targets is not val.targets:  # val has a file of its own
        return task
    everything = train.joined(val)
    return replace(task, train=replace(train, chosen=train.chosen[:0]), val=everything, test=everything)


def _conversion(task: SetTask, like: SetTask) -> Conversion:
    source = np.full(like.features, -1)
    scale, offset = np.ones(like.features), np.zeros(like.features)
    old, new = (_units(t) for t in (task, like))
    on_image = {"boxes": 4, "points": 2}.get(like.kind, 0) if like.input_kind == "image" else 0
    pairs = _paired([task.feature_names[i] for i in task.numbers], [like.feature_names[i] for i in like.numbers])
    if pairs is None:
        theirs, ours = (", ".join(t.feature_names[i] for i in t.numbers) or "none" for t in (task, like))
        raise UserError(f"the elements of {task.name} have the numbers {theirs}, but the model predicts {ours}")
    for a, b in pairs:
        i, j = task.numbers[a], like.numbers[b]
        source[j] = i
        if j >= on_image or task.kind != like.kind:  # positions in an image are fractions of it in both
            scale[j], offset[j] = old[0][i] / new[0][j], (old[1][i] - new[1][j]) / new[0][j]
    pairs = _paired(list(task.groups), list(like.groups))
    if pairs is None:
        theirs, ours = (", ".join(t.groups) or "none" for t in (task, like))
        raise UserError(f"the elements of {task.name} have the categories {theirs}, but the model predicts {ours}")
    for a, b in pairs:
        (name, (first, _)), (wanted, (start, _)) = list(task.groups.items())[a], list(like.groups.items())[b]
        known = {category: k for k, category in enumerate(like.categories[wanted])}
        for k, category in enumerate(task.categories[name]):
            if category not in known:
                names = ", ".join(known)
                raise UserError(f"{task.name} has the {name} {category!r}, but the model knows {names}")
            j = start + known[category]
            source[j] = first + k
            scale[j], offset[j] = old[0][first + k], old[1][first + k]
    return Conversion(source, torch.from_numpy(scale).float(), torch.from_numpy(offset).float())


def _with_groups(task: SetTask, like: SetTask) -> SetTask:
    """The task with the one-hot columns of the other one as categories, also where it has too few of them to tell."""
    same = task.feature_names == like.feature_names
    return replace(task, groups=like.groups, categories=like.categories) if same else task


def _paired(names: Sequence[str], wanted: Sequence[str]) -> list[tuple[int, int]] | None:
    """Indices of names and of the wanted names that belong together: by name, or else by position."""
    if len(names) != len(wanted):
        return None
    if set(names) == set(wanted):
        return [(i, wanted.index(name)) for i, name in enumerate(names)]
    return [(i, i) for i in range(len(names))]


def _units(task: SetTask) -> tuple[Sequence[float], Sequence[float]]:
    """Scale and offset of every feature."""
    return task.scale or (1.0,) * task.features, task.offset or (0.0,) * task.features
