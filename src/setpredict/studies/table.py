"""A table that `setpredict reproduce` trains: its rows, and the experiment of each. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from setpredict.config import Experiment, from_dict, to_dict
from setpredict.core.errors import UserError
from setpredict.presets import Method, Scale, preset

Changes = Mapping[str, Any]
FIXED = {"decoder.initial": "fixed"}


@dataclass(frozen=True)
class Row:
    """One row of a table: a method, and the options that differ from its preset."""

    name: str
    method: Method = "dspn"
    changes: Changes = field(default_factory=dict)
    steps: tuple[int, ...] = (10, 20, 30)
    """Inner steps to evaluate at; one-shot decoders ignore them."""
    after: str | None = None
    """The row whose best weights, of the same seed, this one continues from."""
    encoder: str | None = None
    """The row whose image encoder, of seed 0, this one starts from."""
    encoder_table: str | None = None
    """The table that has that row (None: this one)."""
    shipped: str | None = None
    """The shipped model whose image encoder this one starts from."""
    rates: tuple[float, ...] = ()
    """Learning rates to choose among, by short trainings of seed 0 and their validation score (empty: the preset's)."""
    heading: str = ""
    """A heading in the table, above this row and those that follow."""

    @property
    def slug(self) -> str:
        return "".join(c if c.isalnum() or c in "().-" else "-" for c in self.name.lower())


@dataclass(frozen=True)
class Study:
    """A table: its rows, the preset they start from, and a description."""

    title: str
    preset: str
    rows: tuple[Row, ...]
    changes: Changes = field(default_factory=dict)
    """Options of every row."""
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """One table per question: its answers, and the row that each is read from."""
    about: str = ""
    by_size: bool = False
    """Rows are decoders on sets of n elements with d features, "…, n = 8, d = 2": one column per size."""
    by_time: bool = False
    """With questions: draw validation scores by training time instead of the test score of every answer."""

    def row(self, name: str) -> Row:
        for row in self.rows:
            if name in (row.name, row.slug):
                return row
        raise UserError(f"there is no row {name!r}; rows are {', '.join(repr(r.name) for r in self.rows)}")

    def headings(self) -> dict[str, str]:
        """The heading that each row stands under, by the row's name; empty above the first heading."""
        found, last = {}, ""
        for row in self.rows:
            found[row.name] = last = row.heading or last
        return found

    def experiment(self, row: Row, scale: Scale, seed: int) -> Experiment:
        start = preset(self.preset, row.method, scale)
        return changed(start, {**self.changes, **row.changes, "train.seed": seed})


def changed(experiment: Experiment, changes: Changes) -> Experiment:
    """Another experiment, with some options changed, such as "decoder.solver.steps"; raises for unknown ones."""
    values = to_dict(experiment)
    for option, value in changes.items():
        *parts, last = option.split(".")
        group = values
        for part in parts:
            if not isinstance(group.get(part), dict):
                raise UserError(f"there is no option {option}: {part} is not a group of options")
            group = group[part]
        group[last] = value
    return from_dict(Experiment, values, "experiment")
