"""Configurations as JSON and back; mistakes in them name the field."""

import json
import re

import pytest

from setpredict.config import (
    DecoderConfig,
    EncoderConfig,
    Experiment,
    GradientDescent,
    Implicit,
    InputConfig,
    LastSteps,
    ModelConfig,
    Unrolled,
    from_dict,
    from_json,
    to_dict,
    to_json,
)
from setpredict.config.migrate import VERSION
from setpredict.core.errors import UserError
from setpredict.presets import METHODS, PRESETS, preset, scales_of


def differences(a: dict, b: dict, where: str = "") -> dict[str, tuple]:
    """The fields that differ, by their dotted names."""
    found = {}
    for name in {**a, **b}:
        left, right = a.get(name, "missing"), b.get(name, "missing")
        if isinstance(left, dict) and isinstance(right, dict):
            found |= differences(left, right, f"{where}{name}.")
        elif left != right:
            found[where + name] = (left, right)
    return found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("name", "scale"), [(name, scale) for name in PRESETS for scale in scales_of(name)])
def test_every_preset_survives_json(name, method, scale):
    experiment = preset(name, method, scale)
    text = json.dumps(to_json(experiment))
    again = from_json(Experiment, json.loads(text))
    assert differences(to_dict(again), to_dict(experiment)) == {}
    assert again == experiment
    assert json.dumps(to_json(again)) == text


@pytest.mark.parametrize("gradient", [Unrolled(), LastSteps(4), Implicit()])
def test_a_model_survives_json(gradient):
    config = ModelConfig(
        7,
        3,
        variable=False,
        latent=12,
        input=InputConfig("vector", 64, hidden=(), depth=18, variable=True),
        encoder=EncoderConfig("relation", hidden=(4, 5), normalize=False, mask_sum=True),
        decoder=DecoderConfig(solver=GradientDescent(3, 2.5, 0.5, True, 1.5, 0.1, 1e-3), gradient=gradient),
    )
    values = json.loads(json.dumps(to_json(config)))
    assert values["decoder"]["gradient"] == str(gradient)
    again = from_json(ModelConfig, values)
    assert again == config
    assert type(again.decoder.gradient) is type(gradient)
    assert (again.encoder.hidden, again.input.hidden) == ((4, 5), ())  # tuples again


def test_the_version_is_written_but_is_not_a_field():
    values = to_json(preset("multisets"))
    assert values.pop("version") == VERSION
    assert values == to_dict(preset("multisets"))


def test_defaults_may_be_left_out():
    assert from_json(Experiment, {"version": VERSION}) == Experiment()
    assert from_json(ModelConfig, {"version": VERSION, "max_size": 3, "features": 2}) == ModelConfig(3, 2)


def test_whole_numbers_are_read_as_floats_where_a_float_is_expected():
    decoder = from_dict(DecoderConfig, {"solver": {"step_size": 3}})
    assert type(decoder.solver.step_size) is float


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"latnt": 8}, "config.json.latnt is not a known field; did you mean config.json.latent?"),
        ({"encoder": {"normalise": True}}, "config.json.encoder.normalise is not a known field; did you mean "),
        ({"decoder": {"steps": 1}}, "config.json.decoder.steps is not a known field; "),
        ({"decoder": {"solver": {"step": 1}}}, "config.json.decoder.solver.step is not a known field; did you mean "),
        ({"qqq": 1}, "config.json.qqq is not a known field; known fields are data, latent, coordinates, "),
        ({"latent": "8"}, "config.json.latent must be int, got '8'"),
        ({"latent": 8.0}, "config.json.latent must be int, got 8.0"),
        ({"latent": True}, "config.json.latent must be int, got True"),
        ({"latent": 0.5}, "config.json.latent must be int, got 0.5"),
        ({"train": {"pictures": 1}}, "config.json.train.pictures must be bool, got 1"),
        ({"train": {"lr": True}}, "config.json.train.lr must be float, got True"),
        ({"train": {"max_minutes": "5"}}, "config.json.train.max_minutes must be float, got '5'"),
        ({"train": {"decay_at": 0.5}}, "config.json.train.decay_at must be a list, got 0.5"),
        ({"train": {"decay_at": [0.5, "x"]}}, "config.json.train.decay_at[1] must be float, got 'x'"),
        (
            {"encoder": {"pool": "sort"}},
            "config.json.encoder.pool must be one of fspool, fspool-free, sum, ",
        ),
        ({"input": {"depth": 11}}, "config.json.input.depth must be one of 10, 18, 34, got 11"),
        ({"data": []}, "config.json.data must be an object of named fields, got []"),
        ({"decoder": None}, "config.json.decoder must be an object of named fields, got None"),
        ({"decoder": {"gradient": "last:0"}}, "config.json.decoder.gradient: the gradient must be unrolled, last:K "),
        ({"decoder": {"gradient": None}}, "config.json.decoder.gradient: the gradient must be unrolled, last:K "),
        ({"decoder": {"gradient": {"k": 1}}}, "config.json.decoder.gradient: the gradient must be unrolled, last:K "),
        ({"decoder": {"solver": {"steps": -1}}}, "config.json.decoder.solver: steps must be 0 or more, got -1"),
        ({"decoder": {"solver": {"nesterov": True}}}, "config.json.decoder.solver: nesterov=True needs a momentum "),
    ],
)
def test_mistakes_name_the_field(values, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        from_json(Experiment, {"version": VERSION, **values})


@pytest.mark.parametrize("values", [[], None, "x", 3])
def test_a_file_that_is_not_an_object(values):
    with pytest.raises(UserError, match=r"^here must be an object of named fields, got "):
        from_json(Experiment, values, "here")


@pytest.mark.parametrize("missing", ["max_size", "features"])
def test_missing_fields_are_named(missing):
    values = to_json(ModelConfig(3, 2))
    del values[missing]
    with pytest.raises(UserError, match=rf"^config\.json\.{missing} is missing$"):
        from_json(ModelConfig, values)
