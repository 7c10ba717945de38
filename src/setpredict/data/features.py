"""Elements as people write them (numbers and category names) and as models want them (numbers from 0 to 1).

Numbers are brought to their range in the training data; categories become one-hot groups whose names are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from setpredict.data.io.jsonl import Element, Records
from setpredict.data.ragged import RaggedArray


@dataclass(frozen=True)
class Features:
    """How each column of an element becomes features."""

    names: tuple[str, ...]
    """Of the columns."""
    values: tuple[tuple[str, ...] | None, ...]
    """Of each column its category names, or None for a number."""
    offset: tuple[float, ...]
    scale: tuple[float, ...]
    """Of each column: number = feature * scale + offset."""

    @classmethod
    def fit(
        cls,
        records: Records,
        names: Sequence[str] | None = None,
        extent: Sequence[float] | None = None,
        alike: Sequence[tuple[int, int]] = (),
    ) -> Features:
        """Ranges and categories of the training data.

        `extent` gives the first columns the ranges from 0 to its values instead: places in an image stay such.
        Columns that are `alike` share one range.
        """
        columns = records.columns
        if columns is None:
            raise ValueError(f"{records.path}: every set is empty, so an element's features cannot be seen")
        if names is not None and len(names) != len(columns):
            raise ValueError(f"{len(names)} features are named ({', '.join(names)}), but elements have {len(columns)}")
        if names is not None and len(set(names)) < len(names):
            raise ValueError(f"features must have different names, got {', '.join(names)}")
        elements = [e for s in records.sets for e in s]
        values, low, high = [], np.zeros(len(columns)), np.ones(len(columns))
        for j, is_category in enumerate(columns):
            values.append(tuple(sorted({str(e[j]) for e in elements})) if is_category else None)
            if not is_category:
                numbers = np.array([e[j] for e in elements], np.float64)
                low[j], high[j] = numbers.min(), numbers.max()
        for pair in map(list, alike):
            low[pair], high[pair] = low[pair].min(), high[pair].max()
        if extent is not None:
            low[: len(extent)], high[: len(extent)] = 0, extent
        scale = np.where(high > low, high - low, 1.0)
        named = tuple(names) if names is not None else tuple(f"x{j}" for j in range(len(columns)))
        return cls(named, tuple(values), tuple(low.tolist()), tuple(scale.tolist()))

    @property
    def width(self) -> int:
        """D."""
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
        """One value a feature from one a column; `other` in one-hot groups."""
        pairs = zip(per_column, self.values)
        return tuple(x for number, v in pairs for x in ([number] if v is None else [other] * len(v)))

    def encode(self, records: Records) -> RaggedArray:
        """All sets of a file as numbers."""
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
                raise records.fail(
                    line, f"{self.names[j]} {value!r} is not among the training data's: {', '.join(known)}"
                )
            row[at + known[value]] = 1
            at += len(known)

    def _layout(self):
        at = 0
        for name, v in zip(self.names, self.values):
            yield name, v, at
            at += 1 if v is None else len(v)
