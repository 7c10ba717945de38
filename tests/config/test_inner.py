"""The options of the inner loop: the solver's limits, and gradients as text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setpredict.config import DecoderConfig, GradientDescent, Implicit, LastSteps, Unrolled
from setpredict.config.inner import parse_gradient
from setpredict.core.errors import UserError

TEXTS = {"unrolled": Unrolled(), "implicit": Implicit(), "last:1": LastSteps(1), "last:25": LastSteps(25)}


@pytest.mark.parametrize("text", TEXTS)
def test_a_gradient_is_text_and_back(text):
    assert parse_gradient(text) == TEXTS[text]
    assert str(TEXTS[text]) == text


@given(st.integers(1, 10**6))
def test_the_last_k_steps_are_text_and_back(k):
    assert parse_gradient(str(LastSteps(k))) == LastSteps(k)


WRONG = "last|last:|last:0|last:-1|last:1.5|last:five|last:²|last:10000000000| last:1|first:1|Unrolled|implicit:1"


@pytest.mark.parametrize("text", [*WRONG.split("|"), "", None, 1, True, ["last:1"]])
def test_text_that_is_not_a_gradient_is_named(text):
    expected = f"the gradient must be unrolled, last:K (such as last:5) or implicit, got {text!r}"
    with pytest.raises(UserError, match=f"^{re.escape(expected)}$"):
        parse_gradient(text)


def test_the_last_steps_are_at_least_one():
    with pytest.raises(UserError, match=r"^LastSteps needs at least 1 step, got 0$"):
        LastSteps(0)


@pytest.mark.parametrize(
    ("gradient", "expected"),
    [(Unrolled(), {0: 0, 1: 1, 10: 10}), (LastSteps(3), {0: 0, 2: 2, 3: 3, 10: 3}), (Implicit(), {0: 0, 1: 1, 10: 1})],
)
def test_how_many_steps_are_differentiated(gradient, expected):
    assert {steps: gradient.differentiated(steps) for steps in expected} == expected


def test_gradients_are_values():
    """Equal ones are equal, and can be keys; different ones differ."""
    assert LastSteps(2) == LastSteps(2) != LastSteps(3)
    assert len({Unrolled(), Unrolled(), Implicit(), LastSteps(), LastSteps(1)}) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": -1}, "steps must be 0 or more, got -1"),
        ({"step_size": 0.0}, "step_size must be above 0, got 0.0"),
        ({"step_size": -2.0}, "step_size must be above 0, got -2.0"),
        ({"step_size": float("inf")}, "step_size must be above 0, got inf"),
        ({"step_size": float("nan")}, "step_size must be above 0, got nan"),
        ({"momentum": 1.0}, "momentum must be from 0 to below 1, got 1.0"),
        ({"momentum": -0.1}, "momentum must be from 0 to below 1, got -0.1"),
        ({"momentum": float("nan")}, "momentum must be from 0 to below 1, got nan"),
        ({"nesterov": True}, "nesterov=True needs a momentum above 0, got momentum=0"),
        ({"stop_below": float("nan")}, "stop_below must be 0 or more, or None to take all steps, got nan"),
        ({"stop_below": -1.0}, "stop_below must be 0 or more, or None to take all steps, got -1.0"),
        ({"clip_norm": 0.0}, "clip_norm must be above 0, or None for no clipping, got 0.0"),
        ({"clip_norm": 1e-30}, "clip_norm must be from 1e-18 to 1e18, or None for no clipping, got 1e-30"),
        ({"clip_norm": float("nan")}, "clip_norm must be above 0, or None for no clipping, got nan"),
    ],
)
def test_impossible_solvers_are_named(options, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        GradientDescent(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 0},
        {"momentum": 0.0},
        {"momentum": 0.999},
        {"momentum": 0.1, "nesterov": True},
        {"clip_norm": None},
        {"clip_norm": 1e-9},
        {"step_size": 1e-9},
        {"stop_below": 0.0},
    ],
)
def test_solvers_at_their_limits(options):
    solver = GradientDescent(**options)
    assert {name: getattr(solver, name) for name in options} == options


@pytest.mark.parametrize(
    ("decoder", "name"),
    [
        (DecoderConfig(), "DSPN"),
        (DecoderConfig(gradient=Implicit()), "iDSPN"),
        (DecoderConfig(gradient=LastSteps(1)), "DSPN, last-step gradient"),
        (DecoderConfig(gradient=LastSteps(3)), "DSPN, last-3-steps gradient"),
        (DecoderConfig(gradient=LastSteps(10)), "DSPN"),  # all 10 of its steps
        (DecoderConfig(gradient=LastSteps(1), solver=GradientDescent(1)), "DSPN"),
        (DecoderConfig("mlp"), "MLP"),
        (DecoderConfig("lstm", gradient=Implicit()), "LSTM"),
        (DecoderConfig("my.module:MyDecoder"), "MyDecoder"),
    ],
)
def test_the_name_of_a_decoder_in_tables(decoder, name):
    assert decoder.method == name
