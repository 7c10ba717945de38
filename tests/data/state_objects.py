"""CLEVR objects by their names, for tests: to states, and back by the largest feature of each one-hot group."""

from dataclasses import dataclass

import numpy as np

from setpredict.data.clevr.states import ATTRIBUTES, COORDINATE_SCALE, GROUPS, encode_states


@dataclass(frozen=True)
class StateObject:
    """One object.

    >>> print(StateObject((-2.33, -2.41, 0.73), "metal", "yellow", "cube", "large"))
    (-2.33, -2.41, 0.73) large yellow metal cube
    """

    position: tuple[float, float, float]
    material: str
    color: str
    shape: str
    size: str

    def __str__(self) -> str:
        position = ", ".join(f"{v:.2f}" for v in self.position)
        return f"({position}) {self.size} {self.color} {self.material} {self.shape}"


def objects_to_state(objects: list[StateObject]) -> np.ndarray:
    """Objects as states (n, 18) float32."""
    coords = np.array([o.position for o in objects], np.float64).reshape(-1, 3)
    attributes = [[values.index(getattr(o, name)) for name, values in ATTRIBUTES.items()] for o in objects]
    return encode_states(coords, np.array(attributes, np.uint8).reshape(-1, 4))


def state_to_objects(states: np.ndarray) -> list[StateObject]:
    """Objects from states (n, 18), exact or predicted.

    >>> for o in state_to_objects(objects_to_state([StateObject((1.5, 0, 0.35), "rubber", "red", "sphere", "small")])):
    ...     print(o)
    (1.50, 0.00, 0.35) small red rubber sphere
    """
    result = []
    for state in np.asarray(states):
        x, y, z = (float(v) for v in state[:3] * np.float32(COORDINATE_SCALE))
        attributes = {name: ATTRIBUTES[name][int(np.argmax(state[a:b]))] for name, (a, b) in GROUPS.items()}
        result.append(StateObject((x, y, z), **attributes))
    return result
