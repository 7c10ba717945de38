"""The description of a data set (everything except its samples) as JSON, saved with a run: predictions get names and
units without the data.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from setpredict.core.errors import UserError
from setpredict.core.files import read_json
from setpredict.data.batch import Batch
from setpredict.data.io.json_text import short
from setpredict.data.task import SPLITS, SetTask


@dataclass(frozen=True)
class NoData:
    """An empty split in place of one that is not loaded."""

    def __len__(self) -> int:
        return 0

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        raise ValueError("this task is only a description: its samples are not loaded")


def to_description(task: SetTask) -> dict[str, Any]:
    """All fields of a task except its splits, as values for JSON."""
    return {f.name: getattr(task, f.name) for f in fields(task) if f.name not in SPLITS}


def changed_since(before: SetTask, now: SetTask) -> str:
    """What has changed in the data of a model, so that its numbers or its splits mean something else; else empty."""
    was, has = to_description(before), to_description(now)
    for name in ("feature_names", "categories", "offset", "scale", "input_offset", "input_scale"):
        if json.dumps(was[name]) != json.dumps(has[name]):  # JSON has no tuples
            return f"{name} was {short(was[name])} and is {short(has[name])}"
    if before.divided and now.divided and before.divided != now.divided:
        counts = f"{now.divided:,} samples, where there were {before.divided:,}"
        return f"train and val are a random division of {counts}, so val has samples that were trained on"
    return ""


def read_description(path: Path) -> SetTask:
    """A task without samples, from a JSON file with what `to_description` returned."""
    if not path.is_file():
        raise UserError(f"{path} not found: the description of a run's data set is expected there")
    values = read_json(path)
    if not isinstance(values, dict):
        raise UserError(f"{path} does not describe a data set: expected an object, got {short(values)}")
    known = {f.name: f.default is f.default_factory is MISSING for f in fields(SetTask) if f.name not in SPLITS}
    for name in values:
        if name not in known:
            raise UserError(f"{path} does not describe a data set: unknown field {name!r}")
    for name, required in known.items():
        if required and name not in values:
            raise UserError(f"{path} does not describe a data set: field {name!r} is missing")
    try:
        for name, value in values.items():  # JSON has no tuples
            if isinstance(value, list):
                values[name] = tuple(value)
            elif isinstance(value, dict):
                values[name] = {k: tuple(v) for k, v in value.items()}
        return SetTask(**values, train=NoData(), val=NoData(), test=NoData())
    except (TypeError, ValueError) as error:
        raise UserError(f"{path} does not describe a data set: {error}") from error
