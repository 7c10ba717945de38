"""Convert elements of numbers and category names to features for a model.

Numbers are scaled to [0, 1] by their range in the training data; categories become named one-hot groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from setpredict.core.errors import UserError
from setpredict.data.io.jsonl import Element, Records
from setpredict.data.ragged import RaggedArray


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

    @classmethod
    def fit(
        cls,
        records: Records,
        names: Sequence[str] | None = None,
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
        if names is not None and len(names) != len(columns):
            raise UserError(f"expected names for {len(columns)} features, got {len(names)} ({', '.join(names)})")
        if names is not None and len(set(names)) < len(names):
            raise UserError(f"features must have different names, got {', '.join(names)}")
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
        named = tuple(names) if names is not None else tuple(f"x{j}" for j in range(len(columns)))
        return cls(named, tuple(values), tuple(low.tolist()), tuple(scale.tolist()))

    @property
    def width(self) -> int:
        """D, the number of features."""
        return sum(1 if v is None else len(v) for v in self.values)

    @property
    def groups(self) -> dict[str, tuple[int, int]]:
        return {name: (at, at + len(v)) for name, v, at in self._layout() if v is not None}

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        return {name: v for name, v, _ in self._layout() if v is not None}

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

    def _layout(self):
        at = 0
        for name, v in zip(self.names, self.values):
            yield name, v, at
            at += 1 if v is None else len(v)
