"""CLEVR's objects as 18 numbers: position, then one-hot material, color, shape and size.

The order of the features and the division of positions by 3 follow the paper, so that models and tables are comparable.
"""

from __future__ import annotations

import numpy as np

ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "material": ("rubber", "metal"),
    "color": ("cyan", "blue", "yellow", "purple", "red", "green", "gray", "brown"),
    "shape": ("sphere", "cube", "cylinder"),
    "size": ("large", "small"),
}
SPOKEN = ("size", "color", "material", "shape")
"""The order of the attributes in text: "large yellow metal cube"."""
RADIUS = {"large": 0.7, "small": 0.35}
ROUNDING = {"sphere": 1.0, "cube": 0.18, "cylinder": 0.04}
"""Radius of the rounded edges, relative to the object's radius: fitted to outlines in CLEVR's images, to 1/3 pixel."""
COORDINATE_SCALE = 3.0
"""States contain positions divided by this, as in the paper."""
FEATURES = 3 + sum(len(values) for values in ATTRIBUTES.values())
SCALE = (COORDINATE_SCALE,) * 3 + (1.0,) * (FEATURES - 3)


def _groups() -> dict[str, tuple[int, int]]:
    groups, first = {}, 3
    for name, values in ATTRIBUTES.items():
        groups[name] = (first, first + len(values))
        first += len(values)
    return groups


GROUPS = _groups()
FEATURE_NAMES = ("x", "y", "z", *(f"{name} {v}" for name, values in ATTRIBUTES.items() for v in values))


def encode_states(coords: np.ndarray, attributes: np.ndarray) -> np.ndarray:
    """Positions (M, 3) and attribute indices (M, 4), in the order of `ATTRIBUTES`, as states (M, 18) float32.

    >>> encode_states(np.array([[3.0, 1.5, 0.0]]), np.array([[1, 0, 2, 0]]))[0, :5].tolist()
    [1.0, 0.5, 0.0, 0.0, 1.0]
    """
    states = np.zeros((len(coords), FEATURES), np.float32)
    states[:, :3] = coords / COORDINATE_SCALE
    for column, (first, _) in enumerate(GROUPS.values()):
        states[np.arange(len(coords)), first + attributes[:, column].astype(np.int64)] = 1
    return states
