"""Runs become shipped models by one command, and cards have the command that trains them again."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import tyro
from rich.console import Console

from setpredict.cli.train import TrainOptions
from setpredict.config import Implicit, LastSteps, Unrolled
from setpredict.core.errors import UserError
from setpredict.presets import METHODS, PRESETS, preset
from setpredict.runs import ship
from setpredict.runs.card import Card
from setpredict.runs.command import command_of
from setpredict.runs.evaluate import evaluate_run
from setpredict.runs.folder import RunFolder
from setpredict.runs.loaded import load
from setpredict.runs.ship import main, ship_run
from setpredict.runs.train import train_run
from tests.training.comparing import differences


def read_back(command: str):
    """The experiment that a command line gives."""
    words = shlex.split(command)
    assert words[:2] == ["setpredict", "train"]
    scaled = words[5] == "--scale"
    start = preset(words[2], words[4], words[6] if scaled else "small")  # pyright: ignore[reportArgumentType]
    return tyro.cli(TrainOptions, default=TrainOptions(start), args=words[7 if scaled else 5 :]).experiment


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("method", METHODS)
def test_the_command_of_an_experiment_gives_it_again(name: str, method):
    experiment = preset(name, method)
    experiment.train.max_minutes, experiment.train.batch_size = 7.5, 48
    experiment.data.variable, experiment.encoder.normalize = True, not experiment.encoder.normalize
    solver = replace(experiment.decoder.solver, stop_below=0.25, step_size=3.5)
    experiment.decoder.hidden, experiment.decoder.solver = (3, 5), solver
    command = command_of(experiment, "x")
    assert " --decoder.step-size 3.5 " in command
    assert read_back(command) == experiment


@pytest.mark.parametrize("gradient", [Unrolled(), LastSteps(5), Implicit()], ids=str)
@pytest.mark.parametrize("variable", [None, True, False])
def test_gradients_and_optional_flags_have_their_text(gradient, variable):
    experiment = preset("multisets")
    experiment.decoder.gradient, experiment.input.variable = gradient, variable
    experiment.data.folder = "a folder"
    assert read_back(command_of(experiment, "x")) == experiment


@pytest.fixture
def finished(tiny, tmp_path: Path) -> RunFolder:
    tiny.train = replace(tiny.train, max_steps=2)
    train_run(tiny, tmp_path / "points-new", console=Console(quiet=True))
    return RunFolder(tmp_path / "points-new")


def test_export_needs_the_test_score_of_the_trained_steps(finished, tmp_path: Path):
    with pytest.raises(UserError, match="has no test score: setpredict evaluate"):
        ship_run(finished.path, out=tmp_path / "models")
    evaluate_run(finished.path, [0, 1])
    with pytest.raises(UserError, match="has no test score with the steps of its training"):
        ship_run(finished.path, out=tmp_path / "models")
    finished.summary_path.unlink()
    with pytest.raises(UserError, match="is not finished"):
        ship_run(finished.path, out=tmp_path / "models")
    assert not (tmp_path / "models").exists()


def test_export_of_a_run(finished, tmp_path: Path):
    rows = evaluate_run(finished.path, [0, 2, 4])
    folder = ship_run(finished.path, note="Hardly trained.", out=tmp_path / "models")
    assert sorted(f.name for f in folder.iterdir()) == [
        "README.md", "card.json", "config.json", "model.safetensors", "task.json",
    ]  # fmt: skip
    card = Card.read(folder)
    assert (card.steps_trained, card.metrics, card.run) == (2, rows[1].metrics, "runs/points-new")
    assert read_back(card.command) == finished.read_experiment()
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "Hardly trained." in text
    assert "python -m setpredict.runs.ship runs/points-new --name points-new\n" in text
    theirs, ours = load(finished.path), load(folder)
    assert differences(dict(ours.model.state_dict()), dict(theirs.model.state_dict())) == []
    assert (ours.name, ours.experiment.loss) == ("points-new", theirs.experiment.loss)
    ship_run(finished.path, out=tmp_path / "models")  # again: replaced
    assert Card.read(folder).note == ""


def test_scores_on_other_data_are_on_the_card(finished, tmp_path: Path):
    evaluate_run(finished.path)
    size = finished.read_experiment().data.points
    points = [[[(i + j) % 7 / 7, j / size] for j in range(size)] for i in range(12)]
    (tmp_path / "other").mkdir()
    lines = [json.dumps({"input": s, "set": s}) for s in points]
    for name, part in (("train", lines[:8]), ("val", lines[8:10]), ("test", lines[10:])):
        (tmp_path / "other" / f"{name}.jsonl").write_text("\n".join(part), encoding="utf-8")
    main((finished.path,), also=(f"My points={tmp_path / 'other'}",), out=tmp_path / "models")
    card = Card.read(tmp_path / "models" / "points-new")
    (expected,) = evaluate_run(finished.path, split="all", data=tmp_path / "other", trivial=False)
    assert card.elsewhere == {"My points": {"samples": 12, "metrics": expected.metrics}}
    text = (tmp_path / "models" / "points-new" / "README.md").read_text(encoding="utf-8")
    assert f"| score on | {card.samples:,} test samples | My points (12) |\n| --- | ---: | ---: |\n" in text
    with pytest.raises(UserError, match="--also takes NAME=FOLDER, got 'other'"):
        main((finished.path,), also=("other",), out=tmp_path / "models")


def test_a_row_of_a_table_has_its_own_command(finished, tmp_path: Path):
    evaluate_run(finished.path)
    finished.write_record({"command": "setpredict reproduce ablations", "minutes": 165.04, "steps_trained": 7})
    folder = ship_run(finished.path, "points-row", out=tmp_path / "models")
    card = Card.read(folder)
    assert (card.command, card.minutes, card.steps_trained) == ("setpredict reproduce ablations", 165.0, 7)
    shipping = f"python -m setpredict.runs.ship {shlex.quote(f'runs/{tmp_path.name}/points-new')} --name points-row"
    assert shipping in (folder / "README.md").read_text(encoding="utf-8")


def test_names_sizes_and_cards_are_checked(finished, tmp_path: Path, monkeypatch):
    evaluate_run(finished.path)
    with pytest.raises(UserError, match="letters, digits and dashes"):
        ship_run(finished.path, "../x", out=tmp_path / "models")
    with pytest.raises(UserError, match="points-mlp is a shipped model; this needs the folder of a run"):
        ship_run("points-mlp", out=tmp_path / "models")
    monkeypatch.setattr(ship, "MOST_BYTES", 1000)
    with pytest.raises(UserError, match=r"MB of weights; a shipped model has at most 0.001 MB"):
        ship_run(finished.path, out=tmp_path / "models")
    assert list((tmp_path / "models").iterdir()) == []
    (tmp_path / "card.json").write_text(json.dumps({"name": "x"}), encoding="utf-8")
    with pytest.raises(UserError, match="is not a model card"):
        Card.read(tmp_path)


def test_the_command_line_ships_runs(finished, tmp_path: Path, capsys):
    evaluate_run(finished.path)
    main((finished.path,), name="points-other", out=tmp_path / "models")
    assert capsys.readouterr().out.startswith("points-other: ")
    assert load(tmp_path / "models" / "points-other").method == "DSPN"
    with pytest.raises(UserError, match="--name x is for one run, got 2"):
        main((finished.path, finished.path), name="x", out=tmp_path / "models")
    with pytest.raises(UserError, match="name at least one run"):
        main(())
