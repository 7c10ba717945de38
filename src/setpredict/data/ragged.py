"""RaggedArray: many sets of different sizes as one array of elements and the offsets of the sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from setpredict.sets import Sets


@dataclass(frozen=True, eq=False)
class RaggedArray:
    """S sets; the elements of set s are the rows offsets[s] to offsets[s + 1] - 1 of `values`.

    >>> sets = RaggedArray.of([np.ones((2, 3)), np.zeros((0, 3))], features=3)
    >>> sets.sizes.tolist(), sets.padded(np.array([1, 0]), 4)
    ([2, 0], Sets(2 sets of up to 4 elements with 3 features, sizes 0 to 2))
    """

    values: np.ndarray  # (M, D)
    offsets: np.ndarray  # (S + 1,)

    @classmethod
    def of(cls, sets: Sequence[np.ndarray], features: int) -> RaggedArray:
        offsets = np.concatenate([[0], np.cumsum([len(s) for s in sets], dtype=np.int64)])
        values = np.concatenate(
            [np.asarray(s, np.float32).reshape(-1, features) for s in sets] or [np.zeros((0, features))]
        )
        return cls(values.astype(np.float32), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)

    def padded(self, chosen: np.ndarray, N: int) -> Sets:
        """The sets with these indices, padded with zeros to N elements."""
        begin = self.offsets[chosen]
        mask = np.arange(N) < (self.offsets[chosen + 1] - begin)[:, None]  # (B, N)
        elements = np.zeros((len(chosen), N, self.values.shape[1]), np.float32)
        elements[mask] = self.values[(begin[:, None] + np.arange(N))[mask]]
        return Sets(torch.from_numpy(elements), torch.from_numpy(mask))


def place_centers(elements: RaggedArray, kind: Literal["boxes", "points"]) -> RaggedArray:
    """Center and size (x, y, size) of boxes (left, top, right, bottom), or of points (x, y), whose size is 0."""
    values = elements.values
    if kind == "points":
        places = np.concatenate([values[:, :2], np.zeros((len(values), 1), np.float32)], axis=1)
    else:
        extent = np.clip(values[:, 2:4] - values[:, :2], 0, None)
        middle = (values[:, :2] + values[:, 2:4]) / 2
        places = np.concatenate([middle, np.sqrt(extent[:, :1] * extent[:, 1:])], axis=1)
    return RaggedArray(places.astype(np.float32), elements.offsets)
