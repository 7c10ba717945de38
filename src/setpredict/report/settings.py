"""The settings of runs as HTML tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from setpredict.config import Experiment, to_dict
from setpredict.report.html import table


def settings_tables(experiment: Experiment) -> str:
    """All settings of a run, one folded table per part."""
    parts = []
    for name, values in to_dict(experiment).items():
        rows = flatten(values) if isinstance(values, dict) else flatten({name: values})
        body = table(["setting", "value"], [list(row) for row in rows.items()], "", 2)
        parts.append(f"<details><summary>{escape(name)}</summary>{body}</details>")
    return "\n".join(parts)


def differing_settings(experiments: Sequence[Experiment]) -> list[list[str]]:
    """One row per setting that is not the same in all experiments: its name, then its values."""
    flat = [flatten(to_dict(experiment)) for experiment in experiments]
    keys = [k for k in dict.fromkeys(k for each in flat for k in each) if len({each.get(k) for each in flat}) > 1]
    return [[key, *(each.get(key, "") for each in flat)] for key in keys]


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as text by dotted name.

    >>> flatten({"a": {"b": 1}, "c": (2, 3)})
    {'a.b': '1', 'c': '2 3'}
    """
    result = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            result |= flatten(value, f"{prefix}{key}.")
        else:
            result[prefix + key] = " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    return result
