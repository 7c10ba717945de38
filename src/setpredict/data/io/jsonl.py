"""Read a jsonl file of (input, set) pairs; errors name the file, the line and the reason."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from setpredict.core.errors import UserError
from setpredict.core.files import json_error
from setpredict.data.io.collected import Collected
from setpredict.data.io.json_text import FINITE, is_number, short

InputKind = Literal["image", "vector", "set"]
Element = list[float | str]


@dataclass
class Records:
    """The samples of one file. Elements are lists of numbers and category names; all have the same columns."""

    path: Path
    input_kind: InputKind | None = None
    input_width: int | None = None
    """Length of an input vector, or number of features of an input element."""
    columns: list[bool] | None = None
    """For each column of an element: whether it is a category (text)."""
    inputs: list[Any] = field(default_factory=list)
    sets: list[list[Element]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    """The line number of each sample, for error messages."""

    def error(self, line: int, reason: str) -> UserError:
        return UserError(f"{self.path}, line {line}: {reason}")


def read_jsonl(path: Path, like: Records | None = None) -> Records:
    """Parse and validate a file; with `like`, inputs and elements must have the same form as in that file.

    Up to 20 mistakes are reported together.
    """
    records = Records(path)
    if like is not None:
        records.input_kind, records.input_width, records.columns = like.input_kind, like.input_width, like.columns
    try:
        text = path.read_text(encoding="utf-8-sig")  # Windows writes a mark at the beginning
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a text file: {error}") from None
    if text.lstrip().startswith("["):
        raise UserError(f'{path} begins with a list: write one sample per line, {{"input": …, "set": …}}')
    found = Collected()
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            with found.catching():
                _read_line(records, number, line)
    found.raise_all()
    if not records.sets:
        raise UserError(f"{path} has no samples")
    for number, value in zip(records.lines, records.inputs):
        if value == [] and records.input_kind in ("vector", "image"):  # read before the kind of input was known
            raise records.error(number, f"input is empty, but later inputs are {records.input_kind}s")
    return records


def _read_line(records: Records, number: int, line: str) -> None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise records.error(number, f"not valid JSON: {json_error(error)}") from None
    if not isinstance(record, dict):
        raise records.error(number, f'expected {{"input": …, "set": …}}, got {short(record)}')
    for name in ("input", "set"):
        if name not in record:
            raise records.error(number, f"field {name!r} is missing")
    input, elements = _check_input(records, number, record["input"]), _check_set(records, number, record["set"])
    records.inputs.append(input)
    records.sets.append(elements)
    records.lines.append(number)


def _check_input(records: Records, number: int, value: Any) -> Any:
    if value == [] and records.input_kind is None:
        return value  # an empty set, if later lines have sets
    kind = _input_kind(value, records.input_kind)
    if kind is None:
        expected = "an image file, a list of numbers or a list of lists of numbers"
        raise records.error(number, f"input is {short(value)}, expected {expected}")
    records.input_kind = records.input_kind or kind
    if kind != records.input_kind:
        article = "an" if kind == "image" else "a"
        raise records.error(number, f"input is {article} {kind}, but earlier inputs are {records.input_kind}s")
    if kind == "image":
        return value
    for row in [value] if kind == "vector" else value:
        if not isinstance(row, list) or not all(is_number(v) for v in row):
            raise records.error(number, f"input contains {short(row)}, expected {FINITE}")
        records.input_width = len(row) if records.input_width is None else records.input_width
        if len(row) != records.input_width:
            raise records.error(number, f"input has {len(row)} numbers, but earlier inputs have {records.input_width}")
    return value


def _input_kind(value: Any, before: InputKind | None) -> InputKind | None:
    if isinstance(value, str):
        return "image"
    if not isinstance(value, list):
        return None
    if not value:
        return before if before != "image" else "vector"
    return "set" if isinstance(value[0], list) else "vector"


def _check_set(records: Records, number: int, value: Any) -> list[Element]:
    if not isinstance(value, list):
        raise records.error(number, f"set is {short(value)}, expected a list of elements")
    for i, element in enumerate(value):
        if not isinstance(element, list) or not element:
            raise records.error(number, f"element {i} is {short(element)}, expected a list of features")
        for j, v in enumerate(element):
            if not (is_number(v) or isinstance(v, str)):
                raise records.error(
                    number, f"element {i}, feature {j} is {short(v)}, expected {FINITE} or category names"
                )
        columns = [isinstance(v, str) for v in element]
        if records.columns is None:
            records.columns = columns
        if len(columns) != len(records.columns):
            raise records.error(
                number, f"element {i} has {len(columns)} features, but earlier elements have {len(records.columns)}"
            )
        for j, (now, before) in enumerate(zip(columns, records.columns)):
            if now != before:
                kind = "a category name" if before else "a number"
                raise records.error(
                    number, f"element {i}, feature {j} is {short(element[j])}, but it is {kind} in earlier elements"
                )
    return value
