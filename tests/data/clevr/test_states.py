"""States: encoding and decoding are inverse, and they are formatted as in the paper's appendix."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from setpredict.data.clevr.states import ATTRIBUTES, FEATURE_NAMES, FEATURES, GROUPS
from setpredict.data.sources.scenes import scenes
from tests.data.state_objects import StateObject, objects_to_state, state_to_objects

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
    states = objects_to_state(some)
    again = state_to_objects(states)
    for a, b in zip(some, again, strict=True):
        assert (a.material, a.color, a.shape, a.size) == (b.material, b.color, b.shape, b.size)
        assert a.position == pytest.approx(b.position, abs=1e-6)
    assert np.array_equal(objects_to_state(again)[:, 3:], states[:, 3:])
    assert objects_to_state(again) == pytest.approx(states, abs=1e-7)


@settings(max_examples=25, deadline=None)
@given(objects)
def test_a_task_names_the_fields_of_a_state(some: StateObject):
    fields = scenes("state").fields(torch.from_numpy(objects_to_state([some]))[0])
    assert list(fields.numbers) == ["x", "y", "z"]
    assert tuple(fields.numbers.values()) == pytest.approx(some.position, abs=1e-6)
    assert list(fields.categories) == ["size", "color", "material", "shape"]
    assert fields.categories == {name: getattr(some, name) for name in fields.categories}


def test_text_as_in_the_appendix():
    o = StateObject((-2.33, -2.41, 0.73), "metal", "yellow", "cube", "large")
    (state,) = objects_to_state([o])
    assert str(o) == scenes("state").describe(torch.from_numpy(state)) == "(-2.33, -2.41, 0.73) large yellow metal cube"
    noisy = state + np.random.default_rng(0).uniform(-0.4, 0.4, 18).astype(np.float32)
    assert scenes("state").describe(torch.from_numpy(noisy)).endswith(") large yellow metal cube")
