"""Convert elements of numbers and category names to features for a model.

Numbers are scaled to [0, 1] by their range in the training data; categories become named one-hot groups. Columns that
are a one-hot category already stay as they are, as such a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from setpredict.core.errors import UserError
from setpredict.data.io.jsonl import Element, Records
from setpredict.data.ragged import RaggedArray

SIDES = ("left", "top", "right", "bottom")
"""What the four numbers of a box are, in this order."""
EDGE = 0.01
"""Boxes may reach this far beyond their image, as a fraction of its side, by rounding."""


@dataclass(frozen=True)
class Features:
    """How the columns of an element are converted to features."""

    names: tuple[str, ...]
    """Of each column."""
    values: tuple[tuple[str, ...] | None, ...]
    """The category names of each column, or None for a number."""
    offset: tuple[float, ...]
    scale: tuple[float, ...]
    """For each column: number = feature * scale + offset."""
    one_hot: tuple[tuple[int, int], ...] = ()
    """The columns [first, end) that are a one-hot category together."""

    @classmethod
    def fit(
        cls,
        records: Records,
        names: Sequence[str],
        extent: Sequence[float] | None = None,
        same_range: Sequence[tuple[int, int]] = (),
    ) -> Features:
        """Determine the ranges and categories of the training data.

        The first columns get the ranges from 0 to the values in `extent` instead: positions in an image become
        fractions of it. Each pair of columns in `same_range` shares one range.
        """
        columns = records.columns
        if columns is None:
            raise UserError(f"{records.path}: every set is empty, so the features of an element are unknown")
        if len(names) != len(columns):
            raise UserError(f"expected names for {len(columns)} features, got {len(names)} ({', '.join(names)})")
        if len(set(names)) < len(names):
            raise UserError(f"features must have different names, got {', '.join(names)}")
        if "score" in names:
            raise UserError("a feature cannot be called 'score', which is the name of the mask in predictions")
        elements = [e for s in records.sets for e in s]
        values, low, high = [], np.zeros(len(columns)), np.ones(len(columns))
        for j, is_category in enumerate(columns):
            values.append(tuple(sorted({str(e[j]) for e in elements})) if is_category else None)
            if not is_category:
                numbers = np.array([e[j] for e in elements], np.float64)
                low[j], high[j] = numbers.min(), numbers.max()
        for pair in map(list, same_range):
            low[pair], high[pair] = low[pair].min(), high[pair].max()
        if extent is not None:
            low[: len(extent)], high[: len(extent)] = 0, extent
        scale = np.where(high > low, high - low, 1.0)
        free = np.array([not c and j >= len(extent or ()) for j, c in enumerate(columns)])
        written = np.array([[v if f else np.nan for v, f in zip(e, free)] for e in elements], np.float64)
        return cls(tuple(names), tuple(values), tuple(low.tolist()), tuple(scale.tolist()), one_hot_columns(written))

    @property
    def width(self) -> int:
        """D, the number of features."""
        return sum(1 if v is None else len(v) for v in self.values)

    @property
    def groups(self) -> dict[str, tuple[int, int]]:
        named = {name: (at, at + len(v)) for name, v, at in self._layout() if v is not None}
        return dict(sorted({**named, **self._written_groups()}.items(), key=lambda item: item[1]))

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        named = {name: v for name, v, _ in self._layout() if v is not None}
        names = self.feature_names
        return {**named, **{name: names[first:end] for name, (first, end) in self._written_groups().items()}}

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(n for name, v, _ in self._layout() for n in ([name] if v is None else [f"{name} {c}" for c in v]))

    def per_feature(self, per_column: Sequence[float], other: float) -> tuple[float, ...]:
        """One value per feature from one value per column; `other` in one-hot groups."""
        pairs = zip(per_column, self.values)
        return tuple(x for number, v in pairs for x in ([number] if v is None else [other] * len(v)))

    def encode(self, records: Records) -> RaggedArray:
        """All sets of a file as features."""
        index = [None if v is None else {c: i for i, c in enumerate(v)} for v in self.values]
        sets = []
        for line, elements in zip(records.lines, records.sets):
            rows = np.zeros((len(elements), self.width), np.float32)
            for i, element in enumerate(elements):
                self._encode_element(element, index, rows[i], records, line)
            sets.append(rows)
        return RaggedArray.of(sets, self.width)

    def _encode_element(self, element: Element, index: list, row: np.ndarray, records: Records, line: int) -> None:
        at = 0
        for j, value in enumerate(element):
            known = index[j]
            if known is None:
                row[at] = (float(value) - self.offset[j]) / self.scale[j]
                at += 1
                continue
            if value not in known:
                raise records.error(
                    line, f"{self.names[j]} {value!r} is not in the training data, which has {', '.join(known)}"
                )
            row[at + known[value]] = 1
            at += len(known)

    def _written_groups(self) -> dict[str, tuple[int, int]]:
        """The features of one-hot columns, by a name that no column has."""
        start = [at for _, _, at in self._layout()]
        names = (n for n in ("category", *(f"category {k}" for k in range(2, 999))) if n not in self.names)
        return {name: (start[first], start[first] + end - first) for name, (first, end) in zip(names, self.one_hot)}

    def _layout(self):
        at = 0
        for name, v in zip(self.names, self.values):
            yield name, v, at
            at += 1 if v is None else len(v)


def one_hot_columns(values: Float[np.ndarray, "M C"]) -> tuple[tuple[int, int], ...]:
    """The longest runs [first, end) of at least two columns of which exactly one is 1 in every row, and the others 0.

    >>> one_hot_columns(np.array([[0.3, 1, 0], [0.7, 0, 1]]))
    ((1, 3),)
    """
    M, C = values.shape
    usable = ((values == 0) | (values == 1)).all(axis=0) & (
        values.max(axis=0, initial=0) > values.min(axis=0, initial=1)
    )
    ones = [0, *(values == 1).sum(axis=0).cumsum().tolist()]  # before each column
    found: list[tuple[int, int]] = []
    for width in range(int(usable.sum()) if M > 1 else 0, 1, -1):
        for first in range(C - width + 1):
            end = first + width
            if ones[end] - ones[first] != M:  # fast, and rules out nearly all
                continue
            if usable[first:end].all() and (values[:, first:end].sum(axis=1) == 1).all():
                found.append((first, end))
                usable[first:end] = False
    return tuple(sorted(found))
