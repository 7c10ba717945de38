"""The models that come with the package: a folder each, with weights, settings and a model card."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from setpredict.config import ConfigError

FOLDER = Path(__file__).parent
MOST_BYTES = 2_000_000
"""A shipped model is no larger than this."""


@dataclass(frozen=True)
class Card:
    """What is known about a model: `card.json`, and in words `README.md`, beside its weights."""

    name: str
    method: str
    task: str
    data: dict[str, Any]
    command: str
    metrics: dict[str, float]
    samples: int
    date: str
    parameters: int
    steps_trained: int
    minutes: float
    hardware: str
    revision: str
    note: str = ""
    loss: dict[str, Any] = field(default_factory=dict)
    """The training loss, by which the set distance among the metrics is measured."""
    run: str = ""
    """Where the command leaves the run that was shipped."""

    @classmethod
    def read(cls, folder: Path) -> Card:
        path = folder / "card.json"
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} is not there: is {folder.name} a shipped model?") from None
        except (json.JSONDecodeError, TypeError) as e:
            raise ConfigError(f"{path} is not a model card: {e}") from None


def model_folder(name: Path) -> Path:
    """The folder of a run, or of the shipped model of that name where there is no such folder."""
    if name.exists():
        return name
    if str(name) in shipped():
        return shipped()[str(name)]
    raise FileNotFoundError(f"there is no run {name}; shipped models are {', '.join(shipped())}")


def refuse_shipped(name: Path) -> None:
    """Where only a run will do, the name of a shipped model is no missing folder."""
    if not name.exists() and str(name) in shipped():
        raise ValueError(f"{name} is a shipped model; this needs the folder of a run")


def shipped() -> dict[str, Path]:
    """The shipped models by name, in the order in which they are shown.

    >>> all((folder / "model.safetensors").is_file() for folder in shipped().values())
    True
    """
    order = {"idspn": 0, "dspn": 1, "mlp": 2}
    folders = [path.parent for path in FOLDER.glob("*/card.json")]
    folders.sort(key=lambda f: (f.name.partition("-")[0], order.get(f.name.partition("-")[2], 3), f.name))
    return {folder.name: folder for folder in folders}
