"""JSON from somebody else: read whole, or refused in one line that says where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LARGEST = 1e37
"""Numbers beyond this do not fit where models keep theirs (float32)."""
FINITE = "finite numbers up to 1e37"


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file: {error}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not whole JSON: {json_fault(error, lines=True)}") from None


def json_fault(error: ValueError | RecursionError, lines: bool = False) -> str:
    """What `json.loads` did not like, in a few words; `lines` if the text has more than one."""
    if isinstance(error, json.JSONDecodeError):
        line = f"line {error.lineno}, " if lines else ""
        return f"{error.msg} at {line}column {error.colno}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else "it holds a number of too many digits"


def is_number(value: Any) -> bool:
    """Whether a value from JSON is a number that a model can hold.

    >>> [is_number(v) for v in (1, -2.5, 10**400, float("nan"), True, "1")]
    [True, True, False, False, False, False]
    """
    return type(value) in (int, float) and abs(value) <= LARGEST


def short(value: Any) -> str:
    """A value as JSON, cut off when it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
