"""What is noteworthy about a data set before training on it, one sentence each."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from setpredict.data.plain import some_target_sets
from setpredict.data.task import SetTask

LOOKED_AT = 4096
"""Training sets that are looked at."""
MOSTLY = 0.8
"""Four numbers are meant as boxes if this part of them could be boxes."""


def findings(task: SetTask) -> list[str]:
    """What may be a mistake, or may surprise later."""
    found = []
    if task.test is task.val:
        found.append(
            "There is no test split: the val split is used as such, so its score is the one models are selected by."
        )
    if task.auto_encodes:
        found.append("Every input is its own target: the model will be an auto-encoder.")
    if not len(task.train):
        return [*found, "There are no training samples: this data is for evaluation only."]
    sets = some_target_sets(task.train, LOOKED_AT)
    elements = task.denormalize(sets.elements[sets.mask]).double().numpy()  # (M, D)
    if not len(elements):
        return [*found, "Every training set is empty."]
    constant = [task.feature_names[i] for i in task.numbers if np.ptp(elements[:, i]) == 0 and len(elements) > 1]
    if constant:
        found.append(f"The same in every element: {', '.join(constant)}.")
    if columns := one_hot_columns(elements[:, task.numbers]):
        names = ", ".join(task.feature_names[task.numbers[i]] for i in columns)
        found.append(f"{names} look like a one-hot category: write its name as text in one column instead.")
    if inside_out := _inside_out(task, elements):
        found.append(inside_out)
    return found


def one_hot_columns(values: Float[np.ndarray, "M C"]) -> list[int]:
    """The longest run of columns of which exactly one is 1 in every row, and the others 0; at least two.

    >>> one_hot_columns(np.array([[0.3, 1, 0], [0.7, 0, 1]]))
    [1, 2]
    """
    binary = ((values == 0) | (values == 1)).all(axis=0)
    C = values.shape[1]
    for width in range(C, 1, -1):
        for first in range(C - width + 1):
            part = values[:, first : first + width]
            varies = (part.max(axis=0) > part.min(axis=0)).all()
            if binary[first : first + width].all() and varies and (part.sum(axis=1) == 1).all():
                return list(range(first, first + width))
    return []


def _inside_out(task: SetTask, elements: Float[np.ndarray, "M D"]) -> str:
    """A sentence on boxes with swapped sides, because of which the data was not recognized as boxes."""
    if task.kind != "vectors" or task.input_kind != "image" or task.numbers != [0, 1, 2, 3]:
        return ""
    wrong = int((elements[:, 2:4] < elements[:, :2]).any(axis=1).sum())
    if not 0 < wrong <= (1 - MOSTLY) * len(elements):
        return ""
    return (
        f"{wrong} of {len(elements)} elements have right < left or bottom < top, so that all are plain vectors and "
        'not boxes: correct them, or write {"kind": "boxes"} to task.json.'
    )
