"""The table of the public names: signatures by inspection, and the first sentence of each docstring."""

from __future__ import annotations

import inspect
import re
from typing import Any

import setpredict
from setpredict.report.tables.text import markdown


def public_names_table() -> str:
    """One row per name in `setpredict.__all__`: its signature, and the first sentence of its docstring."""
    rows = [[f"`{signature(name)}`", first_sentence(getattr(setpredict, name))] for name in setpredict.__all__]
    return markdown(["name", "what it is"], rows, text_columns=2)


def signature(name: str) -> str:
    """A public name with its parameters and their defaults, without types.

    >>> signature("PairCost")
    'PairCost(kind="huber", groups=None, weights=None)'
    >>> signature("NotFinite")
    'NotFinite'
    """
    value = getattr(setpredict, name)
    if not callable(value) or (isinstance(value, type) and issubclass(value, Exception)) or _is_protocol(value):
        return name
    words: list[str] = []
    for p in inspect.signature(value).parameters.values():
        if p.kind is p.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        words.append(p.name if p.default is p.empty else f"{p.name}={_default(p.default)}")
    return f"{name}({', '.join(words)})"


def _is_protocol(value: Any) -> bool:
    """Whether a class only says what others must have; nobody calls it."""
    return getattr(value, "_is_protocol", False)


def first_sentence(value: Any) -> str:
    """The first sentence of an object's docstring, as one line.

    >>> first_sentence(first_sentence)
    "The first sentence of an object's docstring, as one line."
    """
    text = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    found = re.match(r"(.*?[.!?])(?= [A-Z]|$)", text)
    return found[1] if found else text


def _default(value: Any) -> str:
    return "…" if repr(value) == "<factory>" else repr(value).replace("'", '"')
