"""Boxes with swapped sides, because of which a data set is not recognized as boxes."""

from __future__ import annotations

import numpy as np
import torch

from setpredict.data.batch import Split
from setpredict.data.plain import target_sets, unaugmented
from setpredict.data.splits import StoredSplit
from setpredict.data.task import SetTask

MOSTLY = 0.8
"""Four numbers are meant as boxes if this part of them could be boxes."""


def inside_out_boxes(task: SetTask) -> str:
    """A sentence on the training elements that keep the others from being boxes; empty if there are none."""
    if task.kind != "vectors" or task.input_kind != "image" or task.numbers != [0, 1, 2, 3]:
        return ""
    sets = [target_sets(split, np.arange(len(split))) for split in _of_the_training_file(task)]
    elements = task.denormalize(torch.cat([s.elements[s.mask] for s in sets])).double().numpy()  # (M, D)
    wrong = int((elements[:, 2:4] < elements[:, :2]).any(axis=1).sum())
    if not 0 < wrong <= (1 - MOSTLY) * len(elements):
        return ""
    return (
        f"{wrong} of {len(elements)} elements have right < left or bottom < top, so that all are plain vectors and "
        'not boxes: correct them, or write {"kind": "boxes"} to task.json.'
    )


def _of_the_training_file(task: SetTask) -> list[Split]:
    """The training split, and the validation split if it was held out from the same samples."""
    train, val = unaugmented(task.train), unaugmented(task.val)
    same = isinstance(train, StoredSplit) and isinstance(val, StoredSplit) and train.targets is val.targets
    return [train, val] if same else [train]
