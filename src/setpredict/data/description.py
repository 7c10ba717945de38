"""What a data set's inputs and elements mean, kept beside a run so that predictions have names without the data."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from setpredict.config import ConfigError
from setpredict.data.task import SPLITS, Batch, SetTask


@dataclass(frozen=True)
class NoData:
    """A split that is not there."""

    def __len__(self) -> int:
        return 0

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        raise ValueError("the data of this run is not loaded, only its description")


def to_card(task: SetTask) -> dict[str, Any]:
    """All of a data set but its samples, as plain values."""
    return {f.name: getattr(task, f.name) for f in fields(task) if f.name not in SPLITS}


def read_card(path: Path) -> SetTask:
    """A data set without samples, from what `to_card` saved."""
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for name, value in values.items():  # JSON has no tuples
            if isinstance(value, list):
                values[name] = tuple(value)
            elif isinstance(value, dict):
                values[name] = {k: tuple(v) for k, v in value.items()}
        return SetTask(**values, train=NoData(), val=NoData(), test=NoData())
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is not there: is {path.parent} a run?") from None
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as e:
        raise ConfigError(f"{path} does not describe a data set: {e}") from e
