"""Untrusted JSON: parse it, or raise a one-line error that says where it is invalid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from setpredict.core.errors import UserError

LARGEST = 1e37
"""Larger numbers do not fit into float32."""
FINITE = "finite numbers up to 1e37"


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a text file: {error}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON: {json_error(error, lines=True)}") from None


def json_error(error: ValueError | RecursionError, lines: bool = False) -> str:
    """An error of `json.loads` as one short line; with `lines`, including the line number."""
    if isinstance(error, json.JSONDecodeError):
        line = f"line {error.lineno}, " if lines else ""
        return f"{error.msg} at {line}column {error.colno}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else "it has a number with too many digits"


def is_number(value: Any) -> bool:
    """Whether a value from JSON is a number that fits into float32.

    >>> [is_number(v) for v in (1, -2.5, 10**400, float("nan"), True, "1")]
    [True, True, False, False, False, False]
    """
    return type(value) in (int, float) and abs(value) <= LARGEST


def short(value: Any) -> str:
    """A value as JSON, truncated to 60 characters.

    >>> short([1, "a"]), short("x" * 100)[-6:]
    ('[1, "a"]', 'xxx...')
    """
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
