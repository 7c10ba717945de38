"""Tables of options, from the fields of the configuration dataclasses and their docstrings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
import typing
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal

from setpredict.report.tables.text import markdown


def option_table(config: type, prefix: str = "") -> str:
    """A Markdown table with one row per option: its name, default and documentation.

    Args:
        config: A dataclass of `setpredict.config`.
        prefix: What the names of its options start with, such as "decoder" in `decoder.step_size`.
    """
    rows = [[f"`{name}`", default, text] for name, default, text in _options(config, prefix)]
    return markdown(["option", "default", "what it does"], rows, text_columns=3)


def field_docs(config: type) -> dict[str, str]:
    """The docstrings of a dataclass's fields: the string literals after them, as one line each.

    >>> from setpredict.config import Experiment
    >>> field_docs(Experiment)["latent"]
    'L, the length of the vector that is decoded (None: chosen for the data).'
    """
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(config))).body
    assert isinstance(node, ast.ClassDef)
    docs = {}
    for field, after in pairwise(node.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
            docs[field.target.id] = " ".join(ast.literal_eval(after.value).split())
    return docs


def _options(config: type, prefix: str) -> Iterator[tuple[str, str, str]]:
    """Name, default and documentation of every option; a nested configuration has its options in its place."""
    docs, hints = field_docs(config), typing.get_type_hints(config, include_extras=True)
    start = f"{prefix}." if prefix else ""
    for field in dataclasses.fields(config):
        hint, *extras = typing.get_args(hints[field.name]) if _is_annotated(hints[field.name]) else [hints[field.name]]
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            flat = any(getattr(extra, "name", None) == "" for extra in extras)  # tyro.conf.arg(name="")
            yield from _options(hint, prefix if flat else start + field.name)
            continue
        text = docs.get(field.name, "")
        if typing.get_origin(hint) is Literal:
            text += f" Choices: {', '.join(f'`{choice}`' for choice in typing.get_args(hint))}."
        yield start + field.name, _default(field), text.strip()


def _is_annotated(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.Annotated


def _default(field: dataclasses.Field) -> str:
    """A field's default as people write it."""
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        value = field.default
    if value is dataclasses.MISSING:
        return "required"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
