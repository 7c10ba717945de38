"""Configurations as plain values for JSON, and back with every mistake named."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from typing import Any, Literal, TypeVar

from setpredict.config.inner import Gradient, parse_gradient
from setpredict.config.migrate import VERSION, migrate
from setpredict.core.errors import UserError

T = TypeVar("T")


def to_json(config: Any) -> dict[str, Any]:
    """The content of a `config.json`: plain values and the version of their form."""
    return {"version": VERSION, **to_dict(config)}


def from_json(kind: type[T], values: Any, where: str = "config.json") -> T:
    """A configuration from the content of a `config.json` of any version."""
    return from_dict(kind, migrate(values, where), where)


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain values."""
    return {f.name: _plain(getattr(config, f.name)) for f in dataclasses.fields(config)}


def _plain(value: Any) -> Any:
    if isinstance(value, Gradient):
        return str(value)
    return to_dict(value) if dataclasses.is_dataclass(value) else value


def from_dict(kind: type[T], values: Any, where: str = "config") -> T:
    """A configuration from plain values; unknown, missing or mistyped fields are named.

    >>> from setpredict.config import InputConfig
    >>> from_dict(InputConfig, {"kind": "image", "sise": 128})
    Traceback (most recent call last):
    setpredict.core.errors.UserError: config.sise is not a known field; did you mean config.size?
    """
    if not isinstance(values, dict):
        raise UserError(f"{where} must be an object of named fields, got {values!r}")
    hints = typing.get_type_hints(kind)
    known = {f.name: f for f in dataclasses.fields(kind)}  # pyright: ignore[reportArgumentType]
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {where}.{near[0]}?" if near else f"known fields are {', '.join(known)}"
            raise UserError(f"{where}.{name} is not a known field; {hint}")
    for name, f in known.items():
        if name not in values and f.default is f.default_factory is dataclasses.MISSING:
            raise UserError(f"{where}.{name} is missing")
    fields = {name: _value(hints[name], value, f"{where}.{name}") for name, value in values.items()}
    try:
        return kind(**fields)
    except UserError as e:
        raise UserError(f"{where}: {e}") from None


def with_changes(values: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Plain values, with those of `after` where they differ from `before`: all three have the same fields.

    >>> with_changes({"lr": 3, "loss": {"steps": "last"}}, {"lr": 1, "loss": {"steps": "all"}},
    ...              {"lr": 2, "loss": {"steps": "all"}})
    {'lr': 2, 'loss': {'steps': 'last'}}
    """
    return {
        name: with_changes(value, before[name], after[name])
        if isinstance(value, dict)
        else (value if after[name] == before[name] else after[name])
        for name, value in values.items()
    }


def _value(hint: Any, value: Any, where: str) -> Any:
    """The value if it fits the type: a nested config, a choice, a tuple, an optional or a plain value."""
    if hint == Gradient:
        try:
            return parse_gradient(value)
        except UserError as e:
            raise UserError(f"{where}: {e}") from None
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return from_dict(hint, value, where)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if value not in args:
            raise UserError(f"{where} must be one of {', '.join(map(str, args))}, got {value!r}")
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        (inner,) = [a for a in args if a is not type(None)]
        return _value(inner, value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise UserError(f"{where} must be a list, got {value!r}")
        return tuple(_value(args[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise UserError(f"{where} must be an object, got {value!r}")
        return {k: _value(args[1], v, f"{where}[{k!r}]") for k, v in value.items()}
    plain: type = hint
    if plain is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, plain) or (isinstance(value, bool) and plain is not bool):
        raise UserError(f"{where} must be {plain.__name__}, got {value!r}")
    if value != value:
        raise UserError(f"{where} must be a number, got nan")
    return value
