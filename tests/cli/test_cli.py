"""The command line: options, mistakes of the user, and training to prediction for every preset."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from setpredict.cli.main import run
from setpredict.config.migrate import VERSION
from setpredict.runs.loaded import load

SMALL = ["--latent", "8", "--encoder.hidden", "8", "--decoder.steps", "2", "--decoder.hidden", "8", "8"]
SHORT = ["--max-steps", "4", "--val-every", "2", "--log-every", "1", "--batch-size", "4", "--threads", "1"]
SHORT += ["--no-pictures"]
IMAGES = ["--data.size", "64", "--input.depth", "18", "--input.width", "4"]


def cli(*words: object) -> int:
    return run([str(w) for w in words])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train"], "which preset?"),
        (["train", "mnits"], "there is no preset 'mnits', did you mean 'mnist'? presets are"),
        (["train", "multisets", "--method", "gan"], "--method must be one of dspn, idspn, slots, transformer, mlp"),
        (["train", "multisets", "--scale"], "--scale needs a value"),
        (["train", "multisets", "--methd", "mlp"], "--methd is not an option; did you mean --method?"),
        (["train", "--resume", "nowhere"], "nowhere is not a run: config.json not found"),
        (["train", "mnist", "--resume", "nowhere"], "leave them out"),
        (["evaluate", "nowhere"], "run nowhere not found; shipped models are digits-dspn"),
        (
            ["predict", "points-idpsn", "[1]"],
            "points-idpsn not found, did you mean 'points-idspn'? shipped models",
        ),
        (["trian", "mnist"], "there is no command 'trian', did you mean 'train'? setpredict --help lists all"),
        (["data", "chek", "x"], "there is no command 'data chek', did you mean 'data check'?"),
        (["train", "Multisets"], "there is no preset 'Multisets', did you mean 'multisets'? presets are polygons"),
        (["predict", "points-idspn", "[]", "--steps", "99999"], "--steps must be from 0 to 10,000, got 99999"),
        (["evaluate", "points-idspn", "--batch-size", "0"], "--batch-size must be at least 1, got 0"),
        (["predict", "points-idspn", "[]", "--threshold", "nan"], "--threshold must be below 1, the largest mask, got"),
        (["report", "points-idspn"], "points-idspn is a shipped model; this needs the folder of a run"),
        (["demo", "--seconds", "0"], "--seconds must be above 0"),
        (["demo", "--steps", "0"], "--steps must be above 0"),
        (["demo", "--seeds", "-1"], "--seeds must be above 0"),
        (["demo", "--seconds", "1", "--steps", "1"], "--seconds and --steps exclude each other, got 1 and 1"),
        (["reproduce", "mnist", "--runs", "0"], "--runs must be at least 1"),
        (["reproduce", "mnist", "--max-steps", "0"], "--max-steps must be at least 1, got 0"),
        (["train", "folder"], "--data.folder is needed for the data set 'folder'"),
        (["train", "folder", "--data.folder", "nowhere"], "nowhere does not exist"),
        (
            ["train", "multisets", "--decoder.gradient", "last:1"],
            "the initial set gets no gradient: only the last 1 of ",
        ),
        (["train", "multisets", "--decoder.kind", "gru"], "decoder.kind must be dspn, slots, transformer, mlp"),
        (
            ["train", "multisets", "--decoder.kind", ":Thing"],
            "':Thing' is no name of a class: expected package",
        ),
        (["train", "multisets", "--decoder.kind", "..a:B"], "'..a:B' is no name of a class: expected package"),
        (["train", "multisets", "--decoder.kind", "no_such:Thing"], "decoder 'no_such:Thing' cannot be imported"),
        (["train", "multisets", "--encoder.kind", "math:pi"], "encoder 'math:pi' must be an nn.Module class, got 3.14"),
        (["train", "multisets", "--encoder.mask", "filter"], "encoder.mask 'filter' has no gradient"),
        (["train", "multisets", "--batch-size", "0"], "--batch-size must be at least 1, got 0"),
        (["train", "multisets", "--data.train", "-1"], "--data.train must be at least 0, got -1"),
        (["train", "multisets", "--data.val", "0"], "the val split of multisets is empty"),
        (["train", "multisets", "--init-from", "nowhere"], "run nowhere not found; shipped models are"),
        (["evaluate", "points-idspn", "--steps", "3", "-1"], "--steps must be from 0 to 10,000, got 3 -1"),
        (["predict", "points-idspn"], "predict needs at least one input"),
        (["predict", "points-idspn", "[]", "--steps", "-2"], "--steps must be from 0 to 10,000, got -2"),
        (["plot", "nowhere"], "run nowhere not found; shipped models are digits-dspn"),
        (["report"], "report needs at least one run"),
        (["reproduce", "mnist", "--rows", "GAN"], "there is no row 'GAN'; rows are 'MLP', 'LSTM'"),
        (["results"], "has no table; setpredict reproduce mnist makes one"),
        (["data", "check", "nowhere"], "nowhere does not exist"),
        (["scenes", "made", "--size", "0"], "size must be from 1 to"),
        (["serve", "--port", "70000"], "--port must be from 0 to 65535, got 70000"),
        (["serve", "--run", "nowhere"], "run nowhere not found; shipped models are"),
    ],
)
def test_mistakes_of_the_user_are_one_line(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli(*words) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith("setpredict: ")
    assert err.count("\n") == 1
    assert list(tmp_path.glob("**/*")) == [], "files were written"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--lrr", "1"], "--lr"),
        (["--decoder.step", "3"], "--decoder.steps"),
        (["--decoder.gradiant", "implicit"], "--decoder.gradient"),
        (["--decoder.gradient", "last"], "unrolled|last:K|implicit"),
        (["--decoder.steps", "-1"], "steps must be 0 or more, got -1"),
    ],
)
def test_wrong_options_say_what_is_right(words, hint, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli("train", "multisets", *words)
    assert stopped.value.code == 2
    assert hint in capsys.readouterr().err


def test_options_may_be_written_as_the_configuration_names_them(tmp_path):
    sizes = ["--data.train", "8", "--data.val", "4", "--data.test", "4"]
    named = ["--train.lr", "0.5", "--decoder.solver.step-size", "3", "--decoder.gradient", "last:7"]
    assert cli("train", "multisets", *SMALL, *SHORT, *sizes, *named, "--out", tmp_path, "--name", "a") == 0
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    assert config["train"]["lr"] == 0.5
    assert config["decoder"]["solver"]["step_size"] == 3.0
    assert config["decoder"]["gradient"] == "last:7"
    assert config["version"] == VERSION


@pytest.mark.parametrize("words", [["--no-pictures"], ["--name=mnist"], ["--name", "mnist"]])
def test_the_preset_may_come_after_options(words, tmp_path):
    sizes = ["--data.train", "8", "--data.val", "4", "--data.test", "4"]
    assert cli("train", *words, "multisets", *SMALL, *SHORT, *sizes, "--out", tmp_path) == 0
    (run,) = tmp_path.iterdir()
    assert json.loads((run / "config.json").read_text())["data"]["name"] == "multisets"


def journey(tmp_path: Path, capsys, preset: str, given: list, *words: object) -> list[dict]:
    """Train, resume, evaluate and predict; returns the predictions."""
    folder = tmp_path / preset
    assert cli("train", preset, *SMALL, *SHORT, "--out", tmp_path, "--name", preset, *words) == 0
    assert cli("train", "--resume", folder, "--max-steps", "6") == 0
    steps = ["--steps", "5"] if load(folder).steps else []
    assert cli("evaluate", folder, "--steps", "1", "3") == (0 if steps else 2)  # a one-shot decoder has no steps
    rows = json.loads((folder / "evaluation-test.json").read_text())
    assert [r["steps"] for r in rows] == ([2, 1, 3] if steps else [None])
    capsys.readouterr()
    assert cli("predict", folder, *given) == 0
    assert f"{given[0]}: " in capsys.readouterr().out
    assert cli("predict", folder, *given, "--json", *steps, "--threshold", "-1") == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [a["input"] for a in answers] == [str(g) for g in given]
    return answers


@pytest.mark.parametrize("method", ["dspn", "idspn", "mlp", "lstm"])
def test_points(method, tmp_path, capsys):
    (tmp_path / "set.json").write_text("[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]]")
    np.save(tmp_path / "set.npy", np.eye(4)[:, :2])
    given = [tmp_path / "set.json", tmp_path / "set.npy", "[[0,0],[0,1],[1,0],[1,1]]"]
    sizes = ["--data.points", "4", "--data.train", "32", "--data.val", "8", "--data.test", "9"]
    answers = journey(tmp_path, capsys, "multisets", given, "--method", method, *sizes)
    assert [[list(e) for e in a["set"]] for a in answers] == [[["score", "x", "y"]] * 4] * 3


def test_polygons(tmp_path, capsys):
    answers = journey(
        tmp_path, capsys, "polygons", ["[1,0,1,0,0,0,0,0]"], "--data.train", "32", "--data.val", "8", "--data.test", "9"
    )
    assert [list(e) for e in answers[0]["set"]] == [["score", "x", "y"]] * 8


@pytest.mark.parametrize("preset", ["scenes-state", "scenes-box"])
def test_scenes(preset, tmp_path, capsys):
    Image.new("RGB", (480, 320), (90, 90, 90)).save(tmp_path / "a.png")
    counts = ["--data.train", "16", "--data.val", "4", "--data.test", "5"]
    answers = journey(tmp_path, capsys, preset, [tmp_path / "a.png"], *IMAGES, *counts)
    assert len(answers[0]["set"]) == 6
    assert ("material" if preset == "scenes-state" else "left") in answers[0]["set"][0]


@pytest.mark.parametrize("preset", ["clevr-state", "clevr-box"])
def test_clevr(preset, tmp_path, capsys, real_data):
    folder = real_data / "clevr-excerpt"
    image = sorted((folder / "images" / "val").iterdir())[0]
    journey(tmp_path, capsys, preset, [image], *IMAGES, "--data.folder", folder)
    assert cli("predict", tmp_path / preset, image, "--threshold", "-1") == 0
    words = capsys.readouterr().out
    assert ("pixels" if preset == "clevr-box" else "metal") in words or "rubber" in words


def test_mnist(tmp_path, capsys, real_data):
    given = ["[[0.1, 0.2], [0.3, 0.4]]"]
    journey(tmp_path, capsys, "mnist", given, "--data.train", "32", "--data.val", "8", "--data.test", "9")


def test_a_folder_with_data_of_the_users_own(tmp_path, capsys):
    data = tmp_path / "data"
    data.mkdir()
    for name, count in (("train", 12), ("val", 5)):
        rows = [{"input": [i / 10, 1.0, 2.0], "set": [[i * 1.0, 5.0]] * (i % 3)} for i in range(count)]
        (data / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    journey(tmp_path, capsys, "folder", ["[0.5, 1, 2]"], "--data.folder", data)


def test_wrong_inputs_to_predict_are_named(tmp_path, capsys):
    sizes = ["--data.points", "4", "--data.train", "8", "--data.val", "4", "--data.test", "4"]
    assert cli("train", "multisets", *SMALL, *SHORT, "--out", tmp_path, "--name", "run", *sizes) == 0
    capsys.readouterr()
    (tmp_path / "empty.npy").write_bytes(b"")
    np.savez(tmp_path / "several.npz", a=np.zeros((2, 2)))
    (tmp_path / "several.npz").rename(tmp_path / "several.npy")
    for given, message in (
        ("no.npy", "file no.npy not found"),
        (tmp_path / "empty.npy", "neither a .npy or .json file nor JSON numbers"),
        (tmp_path / "several.npy", "neither a .npy or .json file nor JSON numbers"),
        (f"[[{'9' * 400}, 0]]", "neither a .npy or .json file nor JSON numbers"),
        ("[" * 100_000, "neither a .npy or .json file nor JSON numbers"),
        ("[[1,2,3]]", "must be a list of elements with 2 numbers"),
        ("[[1,", "neither a .npy or .json file nor JSON numbers"),
        ("no.json", "file no.json not found"),
        ("[[1e999, 0]]", "not finite"),
        ("[[0,0],[0,0],[0,0],[0,0],[0,0]]", "must have exactly 4 elements, got 5"),
        ("[[0,0]]", "must have exactly 4 elements, got 1"),
    ):
        assert cli("predict", tmp_path / "run", given) == 2
        assert message in capsys.readouterr().err


def test_scenes_are_generated_checked_and_trained_on(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli("scenes", "made", "--train", "8", "--val", "3", "--size", "64", "--workers", "1") == 0
    assert len(list((tmp_path / "made" / "images" / "train").glob("CLEVR_train_*.png"))) == 8
    assert cli("data", "check", "made") == 0
    assert "Examples: data-check.png" in capsys.readouterr().out
    assert cli("train", "clevr-state", *SMALL, *SHORT, *IMAGES, "--data.folder", "made", "--out", "runs") == 0
    assert cli("scenes", "made", "--train", "8", "--val", "3", "--size", "96") == 2
    assert "made was begun with size 64, not 96" in capsys.readouterr().err
