"""Configurations and weights of older versions, brought to the present form."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from setpredict.config import (
    DecoderConfig,
    EncoderConfig,
    Experiment,
    GradientDescent,
    Implicit,
    LastSteps,
    ModelConfig,
    Unrolled,
    from_json,
    to_dict,
    to_json,
)
from setpredict.config.migrate import VERSION, migrate, renamed_weight
from setpredict.core.errors import UserError
from setpredict.presets import preset
from setpredict.studies import configure, studies

ROOT = Path(__file__).parents[2]
OLD_RUNS = sorted((ROOT / "tests" / "runs" / "version_1").iterdir())
RECORDS = [
    pytest.param(content["table"], content["scale"], record, id=f"{path.stem}: {record['row']}, {record['seed']}")
    for path in sorted((ROOT / "results").glob("*.json"))
    for content in [json.loads(path.read_text(encoding="utf-8"))]
    for record in content.get("runs", [])
]
OUTDATED = {"clevr-state", "clevr-box"}
"""Tables whose settings have changed since they were trained: their files load, but differ from the study."""
DECODER = {  # version 1, all fields
    "kind": "dspn",
    "steps": 7,
    "step_size": 2.0,
    "loss": "squared",
    "momentum": 0.5,
    "nesterov": True,
    "clip_norm": 3.0,
    "mask": "free",
    "initial": "random",
    "initial_scale": 0.2,
    "penalty": 0.25,
    "project": "unit",
    "stop_below": 1e-4,
    "backprop_steps": None,
    "implicit": False,
    "hidden": [16, 8],
    "mask_bias": 1.0,
}
MIGRATED = DecoderConfig(
    "dspn",
    GradientDescent(7, 2.0, momentum=0.5, nesterov=True, clip_norm=3.0, penalty=0.25, stop_below=1e-4),
    Unrolled(),
    loss="squared",
    mask="free",
    initial="random",
    initial_scale=0.2,
    project="unit",
    hidden=(16, 8),
    mask_bias=1.0,
)


@pytest.mark.parametrize(
    ("options", "gradient"),
    [
        ({"backprop_steps": None, "implicit": False}, Unrolled()),
        ({"backprop_steps": 1, "implicit": False}, LastSteps(1)),
        ({"backprop_steps": 5, "implicit": False}, LastSteps(5)),
        ({"backprop_steps": 1, "implicit": True}, Implicit()),
    ],
)
def test_a_decoder_of_version_1(options, gradient):
    old = {"decoder": DECODER | options}
    assert from_json(Experiment, old).decoder == replace(MIGRATED, gradient=gradient)
    assert from_json(ModelConfig, {"max_size": 3, "features": 2, **old}).decoder == replace(MIGRATED, gradient=gradient)
    assert old == {"decoder": DECODER | options}, "the values of the caller were changed"


def test_a_decoder_of_version_1_without_the_options_that_were_added_later():
    assert from_json(Experiment, {"decoder": {"kind": "mlp", "steps": 3}}).decoder == DecoderConfig(
        "mlp", GradientDescent(3)
    )


def test_an_encoder_of_version_1():
    old = {"kind": "relation", "hidden": [4], "pool": "sum", "pieces": 3, "mask": "weight", "mask_sum": True}
    for normalize in (False, True):
        experiment = from_json(Experiment, {"encoder": {**old, "normalise": normalize}})
        assert experiment.encoder == EncoderConfig("relation", (4,), "sum", 3, "weight", normalize, True)


def as_version_1(experiment: Experiment) -> dict:
    """An experiment as version 1 wrote it, with the fields of a file that it wrote."""
    values, gradient = to_dict(experiment), experiment.decoder.gradient
    values["encoder"]["normalise"] = values["encoder"]["normalize"]
    values["decoder"] |= values["decoder"]["solver"]
    values["decoder"]["implicit"] = gradient == Implicit()
    values["decoder"]["backprop_steps"] = None if gradient == Unrolled() else gradient.differentiated(10**6)
    written = json.loads((OLD_RUNS[0] / "config.json").read_text())
    parts = {name: {k: values[name][k] for k in part} for name, part in written.items() if isinstance(part, dict)}
    return json.loads(json.dumps({name: values[name] for name in written} | parts))


@pytest.mark.parametrize("run", OLD_RUNS, ids=lambda run: run.name)
def test_old_files_and_back(run):
    old = json.loads((run / "config.json").read_text())
    assert as_version_1(from_json(Experiment, old)) == old


@pytest.mark.parametrize("run", OLD_RUNS, ids=lambda run: run.name)
def test_old_runs(run):
    experiment = from_json(Experiment, json.loads((run / "config.json").read_text()))
    model = from_json(ModelConfig, json.loads((run / "best" / "config.json").read_text()))
    expected = {
        "idspn": ("iDSPN", Implicit(), 4),
        "last-steps": ("DSPN, last-2-steps gradient", LastSteps(2), 4),
        "mlp": ("MLP", Unrolled(), 10),
        "relation-predicted": ("DSPN", Unrolled(), 3),
    }
    decoder = experiment.decoder
    assert (decoder.method, decoder.gradient, decoder.solver.steps) == expected[run.name]
    assert (model.latent, model.encoder, model.decoder) == (experiment.latent, experiment.encoder, decoder)


@pytest.mark.parametrize(("table", "scale", "record"), RECORDS)
def test_published_results_have_the_settings_of_their_study(table, scale, record, tmp_path, monkeypatch):
    monkeypatch.setenv("SETPREDICT_DATA", str(tmp_path))  # the published tables were trained without CLEVR itself
    found = from_json(Experiment, record["config"], record["row"])
    assert from_json(Experiment, json.loads(json.dumps(to_json(found)))) == found
    if table in OUTDATED:
        return
    study = studies()[table]
    expected = configure(study, study.row(record["row"]), scale, record["seed"])
    expected.data.folder = found.data.folder  # depends on the machine
    for one in (found, expected):
        one.coordinates = one.coordinates or 1.0  # none of these tables has boxes whose scale the data decides
    limits = {name: getattr(found.train, name) for name in ("max_minutes", "threads", "save_every")}
    expected.train = replace(expected.train, **limits)  # chosen by the caller
    for part in to_dict(expected):
        assert getattr(found, part) == getattr(expected, part), part


def test_there_are_published_results():
    found = {record.values[0] for record in RECORDS}
    assert {"mnist", "clevr-state", "clevr-box", "renders-state", "renders-box", "ablations"} <= found <= set(studies())


@pytest.mark.parametrize("version", [VERSION + 1, 0, -1, "2", 1.0, None, True])
def test_unknown_versions_are_named(version):
    message = f"here has version {version!r}; this setpredict reads versions 1 to {VERSION}: update it"
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        from_json(Experiment, {"version": version}, "here")


def test_version_1_may_be_written_into_the_file():
    assert from_json(Experiment, {"version": 1, "decoder": DECODER}).decoder == MIGRATED


def test_the_present_form_is_not_migrated():
    """`normalise` was a field of version 1 only."""
    assert migrate({"version": VERSION, "encoder": {"normalise": 1}}) == {"encoder": {"normalise": 1}}
    for name in ("steps", "backprop_steps", "implicit"):
        with pytest.raises(UserError, match=rf"^config\.json\.decoder\.{name} is not a known field"):
            from_json(Experiment, {"version": VERSION, "decoder": {name: DECODER[name]}})


@pytest.mark.parametrize("method", ["dspn", "idspn"])
def test_the_present_form_without_its_version_keeps_its_values(method):
    """A file written by hand may lack the version; its solver and gradient must not silently become the defaults."""
    experiment = preset("multisets", method)
    assert from_json(Experiment, to_dict(experiment)) == experiment


def test_mistakes_in_old_files_are_named_too():
    with pytest.raises(UserError, match=r"^config\.json\.decoder\.solver\.steps must be int, got 'ten'$"):
        from_json(Experiment, {"decoder": {"steps": "ten"}})
    with pytest.raises(UserError, match=r"^config\.json\.decoder\.gradient: the gradient must be .*, got 'last:0'$"):
        from_json(Experiment, {"decoder": {"backprop_steps": 0}})
    with pytest.raises(UserError, match=r"^config\.json\.decoder\.stepz is not a known field"):
        from_json(Experiment, {"decoder": {"stepz": 1}})
    with pytest.raises(UserError, match=r"^config\.json\.encoder must be an object of named fields, got 3$"):
        from_json(Experiment, {"encoder": 3})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("decoder.encoder.elements.0.weight", "decoder.encoder.network.0.weight"),
        ("decoder.encoder.pairs.2.bias", "decoder.encoder.network.2.bias"),
        ("input_encoder.elements.0.weight", "input_encoder.network.0.weight"),
        ("input_encoder.pairs.0.weight", "input_encoder.network.0.weight"),
        ("decoder.initial.guess.4.bias", "decoder.initial.network.4.bias"),
        ("module.decoder.initial.guess.4.bias", "module.decoder.initial.network.4.bias"),
        ("decoder.encoder.pool.weight", "decoder.encoder.pool.weight"),
        ("decoder.layers.0.weight", "decoder.layers.0.weight"),
        ("decoder.encoder.elements", "decoder.encoder.elements"),  # not a part of a network
    ],
)
def test_weights_of_version_1_have_new_names(old, new):
    assert renamed_weight(old, known=()) == new
    assert renamed_weight(new, known=()) == new


def test_names_that_the_model_knows_stay():
    """A set encoder of the user's own may have a part that is called `elements`."""
    name = "decoder.encoder.elements.0.weight"
    assert renamed_weight(name, known={name}) == name
