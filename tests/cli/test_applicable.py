"""Help shows the options that apply to a preset and a method; the others are accepted, and said to have no effect."""

import re

import pytest
from tyro import cli as parse

from setpredict.cli.applicable import DATA, DECODERS, hidden_options, without_hidden
from setpredict.cli.main import run
from setpredict.cli.train import TrainOptions
from setpredict.cli.train_help import METHOD_LINES, PRESET_LINES, SCALE_LINES
from setpredict.config import DataConfig, DecoderConfig, Experiment, InputConfig, from_json, to_json
from setpredict.presets import METHODS, PRESETS, SCALES, preset
from setpredict.report.doc_tables.options import field_docs
from setpredict.report.settings import flatten

SOURCES = {"multisets", "polygons", "numbering", "mnist", "clevr", "scenes", "folder", "coco"}


def help_of(capsys: pytest.CaptureFixture, *words: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        run(["train", *words, "--help"])
    assert stopped.value.code == 0
    return capsys.readouterr().out


def options_in(text: str) -> set[str]:
    return {word.strip(",") for word in re.findall(r"^\W*(--\S+)", text, re.M)}


def test_the_overview_names_presets_methods_and_scales(capsys: pytest.CaptureFixture):
    assert set(PRESET_LINES) == set(PRESETS)
    assert (set(METHOD_LINES), set(SCALE_LINES)) == (set(METHODS), set(SCALES))
    text = help_of(capsys)
    for name in (*PRESETS, *METHODS, *SCALES, "--method", "--scale", "--resume"):
        assert re.search(rf"(?<![\w-]){name}(?![\w-])", text), name
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "shown", "hidden"),
    [
        (
            ["multisets"],
            ["--data.dim", "--data.augment.rotate"],
            ["--data.augment.zoom", "--data.size", "--input.depth", "--loss.dense"],
        ),
        (["polygons"], ["--input.hidden"], ["--data.dim", "--data.folder", "--input.shared", "--data.augment.zoom"]),
        (
            ["mnist"],
            ["--data.folder", "--input.shared"],
            ["--data.min-objects", "--data.augment.flip", "--input.warmup"],
        ),
        (["scenes-box"], ["--data.min-objects", "--input.warmup", "--data.size"], ["--data.points", "--input.hidden"]),
        (["folder"], ["--data.augment.zoom", "--input.hidden", "--loss.dense"], ["--data.target", "--data.dim"]),
        (
            ["mnist", "--method", "mlp"],
            ["--decoder.hidden"],
            ["--decoder.step-size", "--decoder.heads", "--loss.steps"],
        ),
        (["mnist", "--method", "transformer"], ["--decoder.heads", "--decoder.steps"], ["--decoder.momentum"]),
        (["scenes-box", "--method", "mlp"], ["--decoder.hidden"], ["--encoder.kind", "--encoder.pool"]),
    ],
)
def test_help_is_about_the_preset_and_the_method(words, shown, hidden, capsys: pytest.CaptureFixture):
    text = help_of(capsys, *words)
    assert ">>>" not in text  # the examples of docstrings are for Python
    found = options_in(text)
    for option in ("--lr", "--max-minutes", "--name", "--resume", "--latent", "--decoder.kind", *shown):
        assert option in found, option
    for option in ("--data.name", "--input.size", "--input.pretrained", *hidden):
        assert option not in found, option


def test_every_listed_option_exists():
    known = set(flatten(to_json(Experiment())))
    for name in (*DATA, *DECODERS):
        assert name in known or any(option.startswith(f"{name}.") for option in known), name


def scope(text: str) -> set[str]:
    """The names before the first colon of an option's documentation, such as "clevr, scenes: …"."""
    return {word.strip() for word in text.partition(":")[0].split(",")}


def test_what_applies_is_what_the_documentation_says():
    """Options whose documentation begins with data sets, or with decoders, are shown for these and no others."""
    checked = 0
    for prefix, config in (("data", DataConfig), ("input", InputConfig), ("decoder", DecoderConfig)):
        for field, text in field_docs(config).items():
            named, name = scope(text), f"{prefix}.{field}"
            if named <= SOURCES and prefix == "data" and field != "folder":
                assert set(DATA[name]) == named | ({"coco"} if "folder" in named else set()), name
            elif named <= set(METHODS) and prefix == "decoder" and field != "kind":
                assert set(DECODERS[name]) >= named, name
            elif named <= {"Images", "resnet", "conv"}:
                assert set(DATA[name]) <= {"clevr", "scenes", "folder", "coco"}, name
            elif named <= {"Sets", "Vectors"}:
                assert not {"clevr", "scenes"} & set(DATA[name]), name
            else:
                continue
            checked += 1
    assert checked > 20


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PRESETS)
def test_the_options_that_help_shows_are_those_of_the_preset(name: str, method):
    default = TrainOptions(preset(name, method))
    shown = without_hidden(default, hidden_options(default.experiment))
    assert to_json(shown.experiment) == to_json(default.experiment)
    parsed = parse(type(shown), default=shown, args=["--lr", "0.25"])
    assert from_json(Experiment, to_json(parsed.experiment), "").train.lr == 0.25


def test_hidden_options_are_accepted_and_said_to_have_no_effect(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    seen = []
    monkeypatch.setattr("setpredict.cli.train._train", lambda options, *_: seen.append(options.experiment))
    assert run(["train", "mnist", "--data.dim=5", "--decoder.heads", "2", "--data.no-variable", "--lr", "1"]) == 0
    assert type(seen[0].data) is DataConfig
    assert (seen[0].data.dim, seen[0].decoder.heads, seen[0].train.lr) == (5, 2, 1.0)
    told = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in told] == ["--data.dim", "--decoder.heads", "--data.no-variable"]
    assert all("has no effect here" in line for line in told)
    assert run(["train", "multisets", "--data.dim", "5", "--decoder.kind", "mlp", "--decoder.step-size", "2"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["--decoder.step-size"]
    assert run(["train", "folder", "--data.name", "coco", "--data.size", "64"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "words",
    [
        ["multisets", "--data.variable"],
        ["--data.variable", "multisets"],
        ["--name", "mnist", "multisets", "--data.variable"],
        ["--data.variable", "--name", "mnist", "multisets"],
    ],
)
def test_options_may_stand_before_the_preset(words, monkeypatch):
    seen = []
    monkeypatch.setattr("setpredict.cli.train._train", lambda options, kind: seen.append((options, kind)))
    assert run(["train", *words]) == 0
    ((options, kind),) = seen
    assert (options.experiment.data.name, options.experiment.data.variable, kind) == (
        "multisets",
        True,
        "multisets-dspn",
    )
