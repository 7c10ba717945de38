"""CLEVR's objects as 18 numbers and back: position, then one-hot material, color, shape and size.

The order and the division of positions by 3 are the paper's, so that models and tables can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "material": ("rubber", "metal"),
    "color": ("cyan", "blue", "yellow", "purple", "red", "green", "gray", "brown"),
    "shape": ("sphere", "cube", "cylinder"),
    "size": ("large", "small"),
}
SPOKEN = ("size", "color", "material", "shape")
RADIUS = {"large": 0.7, "small": 0.35}
ROUNDING = {"sphere": 1.0, "cube": 0.18, "cylinder": 0.04}
"""How round the edges are, in radii: fitted to the outlines in genuine images, to a third of a pixel."""
COORDINATE_SCALE = 3.0
"""States hold positions divided by this, as in the paper."""
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


@dataclass(frozen=True)
class StateObject:
    """One object, as a person would say it.

    >>> print(StateObject((-2.33, -2.41, 0.73), "metal", "yellow", "cube", "large"))
    (-2.33, -2.41, 0.73) large yellow metal cube
    """

    position: tuple[float, float, float]
    material: str
    color: str
    shape: str
    size: str

    def __str__(self) -> str:
        place = ", ".join(f"{v:.2f}" for v in self.position)
        return f"({place}) {self.size} {self.color} {self.material} {self.shape}"


def encode_states(coords: np.ndarray, attributes: np.ndarray) -> np.ndarray:
    """Positions (M, 3) and attribute indices (M, 4), in the order of `ATTRIBUTES`, as states (M, 18) float32."""
    states = np.zeros((len(coords), FEATURES), np.float32)
    states[:, :3] = coords / COORDINATE_SCALE
    for column, (first, _) in enumerate(GROUPS.values()):
        states[np.arange(len(coords)), first + attributes[:, column].astype(np.int64)] = 1
    return states


def objects_to_state(objects: list[StateObject]) -> np.ndarray:
    """The inverse of `state_to_objects`: (n, 18) float32."""
    coords = np.array([o.position for o in objects], np.float64).reshape(-1, 3)
    attributes = [[values.index(getattr(o, name)) for name, values in ATTRIBUTES.items()] for o in objects]
    return encode_states(coords, np.array(attributes, np.uint8).reshape(-1, 4))


def state_to_objects(states: np.ndarray) -> list[StateObject]:
    """Objects from states (n, 18), exact or predicted: of each one-hot group the largest feature counts.

    >>> for o in state_to_objects(objects_to_state([StateObject((1.5, 0, 0.35), "rubber", "red", "sphere", "small")])):
    ...     print(o)
    (1.50, 0.00, 0.35) small red rubber sphere
    """
    states = np.asarray(states)
    if states.ndim != 2 or states.shape[1] != FEATURES:
        raise ValueError(f"states must have shape (n, {FEATURES}), got {states.shape}")
    result = []
    for state in states:
        x, y, z = (float(v) for v in state[:3] * np.float32(COORDINATE_SCALE))
        words = {name: ATTRIBUTES[name][int(np.argmax(state[a:b]))] for name, (a, b) in GROUPS.items()}
        result.append(StateObject((x, y, z), **words))
    return result
