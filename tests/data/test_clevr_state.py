"""States: encoding and decoding are inverse, and they print as the paper's appendix does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setpredict.data.clevr.states import (
    ATTRIBUTES,
    FEATURE_NAMES,
    FEATURES,
    GROUPS,
    StateObject,
    objects_to_state,
    state_to_objects,
)

coordinate = st.floats(-3, 3, width=32).map(lambda v: float(np.float32(v)))
objects = st.builds(
    StateObject,
    st.tuples(coordinate, coordinate, coordinate),
    **{name: st.sampled_from(values) for name, values in ATTRIBUTES.items()},
)


def test_layout():
    assert FEATURES == len(FEATURE_NAMES) == 18
    assert GROUPS == {"material": (3, 5), "color": (5, 13), "shape": (13, 16), "size": (16, 18)}
    (state,) = objects_to_state([StateObject((-3.0, 1.5, 0.7), "metal", "green", "cylinder", "small")])
    expected = np.zeros(18)
    expected[[0, 1, 2]] = -1, 0.5, 0.7 / 3
    expected[[4, 5 + 5, 13 + 2, 16 + 1]] = 1
    assert state == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(st.lists(objects, max_size=6))
def test_round_trip(some: list[StateObject]):
    again = state_to_objects(objects_to_state(some))
    for a, b in zip(some, again, strict=True):
        assert (a.material, a.color, a.shape, a.size) == (b.material, b.color, b.shape, b.size)
        assert a.position == pytest.approx(b.position, abs=1e-6)
    assert np.array_equal(objects_to_state(again)[:, 3:], objects_to_state(some)[:, 3:])
    assert objects_to_state(again) == pytest.approx(objects_to_state(some), abs=1e-7)


def test_prints_as_in_the_appendix():
    o = StateObject((-2.33, -2.41, 0.73), "metal", "yellow", "cube", "large")
    assert str(o) == "(-2.33, -2.41, 0.73) large yellow metal cube"
    noisy = objects_to_state([o]) + np.random.default_rng(0).uniform(-0.001, 0.001, 18).astype(np.float32)
    assert str(state_to_objects(noisy)[0]).endswith("large yellow metal cube")


def test_wrong_shape():
    with pytest.raises(ValueError, match=r"states must have shape \(n, 18\), got \(2, 17\)"):
        state_to_objects(np.zeros((2, 17)))
