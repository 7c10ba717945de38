"""Values of untrusted JSON: which numbers are accepted, and how a value is shown."""

from __future__ import annotations

import json
from typing import Any

LARGEST = 1e37
"""Larger numbers do not fit into float32."""
FINITE = "finite numbers up to 1e37"


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
