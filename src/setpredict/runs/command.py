"""The command line of an experiment: the shortest `setpredict train …` that gives it."""

from __future__ import annotations

import dataclasses
from shlex import quote
from typing import Any, get_type_hints

from setpredict.config import Experiment, Gradient
from setpredict.presets import METHODS, PRESETS, preset, scales_of

FLAT = ("train", "solver")
"""Parts of a configuration whose name is not part of their options' names."""


def command_of(experiment: Experiment, name: str) -> str:
    """The shortest `setpredict train …` that gives this experiment.

    >>> experiment = preset("multisets", "idspn")
    >>> experiment.data.variable = True
    >>> command_of(experiment, "mine")
    'setpredict train multisets --method idspn --data.variable --name mine'
    """
    best: list[str] | None = None
    for preset_name in PRESETS:
        for method in METHODS:
            for scale in scales_of(preset_name):
                start = preset(preset_name, method, scale)
                if (start.data.name, start.data.target) != (experiment.data.name, experiment.data.target):
                    continue
                words = [preset_name, "--method", method, *(["--scale", scale] if scale != "small" else [])]
                words += _changes(start, experiment)
                if best is None or len(words) < len(best):
                    best = words
    return " ".join(["setpredict train", *map(quote, best or ["PRESET"]), "--name", quote(name)])


def _changes(start: Any, end: Any, prefix: str = "") -> list[str]:
    """The options that turn one configuration into the other."""
    hints, words = get_type_hints(type(end)), []
    for f in dataclasses.fields(end):
        before, value = getattr(start, f.name), getattr(end, f.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, Gradient):
            words += _changes(before, value, prefix if f.name in FLAT else f"{prefix}{f.name}.")
        elif value != before:
            words += _option(prefix, f.name.replace("_", "-"), value, is_flag=hints[f.name] is bool)
    return words


def _option(prefix: str, name: str, value: Any, is_flag: bool) -> list[str]:
    if is_flag:
        return [f"--{prefix}{name}" if value else f"--{prefix}no-{name}"]
    return [f"--{prefix}{name}", *map(str, value if isinstance(value, tuple) else (value,))]
