"""What is noteworthy about a data set before training on it, one sentence each."""

from __future__ import annotations

import math

import numpy as np

from setpredict.data.features import EDGE
from setpredict.data.inside_out import inside_out_boxes
from setpredict.data.plain import some_target_sets
from setpredict.data.task import SetTask

MANY_NUMBERS = 20
"""More categories than that, all of them numbers, are probably quantities."""
LOOKED_AT = 4096
"""Training sets that are looked at."""


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
    elements = sets.elements[sets.mask].double().numpy()  # (M, D)
    if not len(elements):
        return [*found, "Every training set is empty."]
    constant = [task.feature_names[i] for i in task.numbers if np.ptp(elements[:, i]) == 0 and len(elements) > 1]
    if constant:
        found.append(f"The same in every element: {', '.join(constant)}.")
    for name, (first, end) in task.groups.items():
        if task.categories[name] == task.feature_names[first:end]:
            found.append(f"{', '.join(task.categories[name])} are a one-hot {name}, and are treated as one.")
    if inside_out := inside_out_boxes(task):
        found.append(inside_out)
    elif task.kind == "vectors" and task.input_kind == "image" and task.numbers[:4] == [0, 1, 2, 3]:
        found.append(
            "The elements are plain vectors. If they are boxes: these are left, top, right, bottom (not x, y, width, "
            'height, nor a center), then only categories, as text ("3", not 3).'
        )
    elif task.kind == "vectors" and task.input_kind == "image" and task.numbers in ([0, 1], [0, 1, 2]):
        found.append(
            'The elements are plain vectors. If they are points in the image, say "kind": "points" in task.json.'
        )
    for name, categories in task.categories.items():
        if len(categories) > MANY_NUMBERS and all(map(_is_number, categories)):
            found.append(
                f"{name} has {len(categories)} categories that are all numbers. If they are quantities, write them "
                "without quotes."
            )
    if task.kind == "boxes":
        found += _odd_boxes(sets.elements[sets.mask][:, :4].double().numpy())
    return found


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _odd_boxes(boxes: np.ndarray) -> list[str]:
    """Boxes (M, 4), as fractions of their image, that cannot be meant."""
    flat = (boxes[:, 2:] <= boxes[:, :2]).any(axis=1)
    beyond = ((boxes < -EDGE) | (boxes > 1 + EDGE)).any(axis=1)
    said = {"have no area": int(flat.sum()), "reach beyond their image": int(beyond.sum())}
    return [f"{count} of {len(boxes)} boxes {what}." for what, count in said.items() if count]
