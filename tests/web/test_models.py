"""Shipped models: whole, small, described, loadable, and exported from runs by one command."""

import json
import shlex
from pathlib import Path

import pytest
import torch
from rich.console import Console

from setpredict.cli import TrainOptions, run
from setpredict.config import DecoderConfig, EncoderConfig, TrainConfig
from setpredict.model import SetPredictor
from setpredict.runs.card import FOLDER, MOST_BYTES, Card, shipped
from setpredict.runs.ship import command_of, export
from setpredict.presets import METHODS, PRESETS, DataConfig, Experiment, preset
from setpredict.studies import configure, studies
from setpredict.data.description import read_card
from setpredict.runs.train import evaluate_run, train_run


def test_there_is_a_model_for_every_page():
    assert {name.partition("-")[0] for name in shipped()} == {"digits", "points", "polygons", "scenes"}
    assert [n for n in shipped() if n.startswith("points")] == ["points-idspn", "points-dspn", "points-mlp"]


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_model_is_small_whole_and_described(name: str):
    folder = shipped()[name]
    card = Card.read(folder)
    assert (folder / "model.safetensors").stat().st_size <= MOST_BYTES
    model = SetPredictor.from_pretrained(folder)  # own code is not allowed here
    assert sum(p.numel() for p in model.parameters()) == card.parameters
    task = read_card(folder / "task.json")
    assert model.config is not None
    assert (model.config.max_size, model.config.features) == (task.max_size, task.features)
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert card.command in text
    assert card.date in text
    for word in ("/work", "/tmp", "/home", "/root"):
        assert word not in text + (folder / "card.json").read_text(encoding="utf-8")


def test_the_package_stays_small():
    package = FOLDER.parent
    files = [f for f in package.rglob("*") if f.is_file() and "__pycache__" not in f.parts]
    assert sum(f.stat().st_size for f in files) < 15_000_000


@pytest.mark.parametrize("name", [n for n in shipped() if n.startswith("points")])
def test_points_come_back_better_than_chance(name: str):
    model = SetPredictor.from_pretrained(shipped()[name])
    points = [[0.2, 0.3], [0.8, 0.2], [0.5, 0.8]]
    found = model.predict([points]).to_list()[0]
    assert len(found) == 3
    assert torch.cdist(torch.tensor(points), found).min(dim=1).values.max() < 0.25


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("method", METHODS)
def test_the_command_on_a_card_gives_the_experiment_again(name: str, method):
    import tyro

    experiment = preset(name, method)
    experiment.train.max_minutes, experiment.train.batch_size = 7.5, 48
    experiment.data.variable, experiment.encoder.normalize = True, not experiment.encoder.normalize
    experiment.decoder.hidden, experiment.decoder.stop_below = (3, 5), 0.25
    words = command_of(experiment, "x").split()
    assert words[:2] == ["setpredict", "train"]
    start = preset(words[2], words[4])  # pyright: ignore[reportArgumentType]
    again = tyro.cli(TrainOptions, default=TrainOptions(start), args=words[5:])
    assert again.experiment == experiment


def test_export_of_a_run(tmp_path: Path):
    experiment = Experiment(
        DataConfig("multisets", points=4, train=64, test=20),
        latent=8,
        encoder=EncoderConfig(hidden=(8,)),
        decoder=DecoderConfig(steps=2),
        train=TrainConfig(max_steps=2, batch_size=8, threads=1),
    )
    run = tmp_path / "points-new"
    train_run(experiment, run, console=Console(quiet=True))
    with pytest.raises(FileNotFoundError, match="has no test score"):
        export(run, out=tmp_path / "models")
    evaluate_run(run, [0, 1])
    with pytest.raises(ValueError, match="has no test score at the steps that it was trained with"):
        export(run, out=tmp_path / "models")
    rows = evaluate_run(run, [0, 2, 4])
    folder = export(run, note="Hardly trained.", out=tmp_path / "models")
    assert sorted(f.name for f in folder.iterdir()) == [
        "README.md", "card.json", "config.json", "model.safetensors", "task.json",
    ]  # fmt: skip
    assert (Card.read(folder).steps_trained, Card.read(folder).metrics) == (2, rows[1].metrics)
    assert "Hardly trained." in (folder / "README.md").read_text(encoding="utf-8")
    export(run, out=tmp_path / "models")  # again: replaced
    assert Card.read(folder).note == ""
    (run / "record.json").write_text(
        json.dumps({"command": "setpredict reproduce ablations", "minutes": 165.04, "steps_trained": 7})
    )
    named = export(run, "points-row", out=tmp_path / "models")
    card = Card.read(named)
    assert (card.command, card.minutes, card.steps_trained) == ("setpredict reproduce ablations", 165.0, 7)
    shipping = f"python -m setpredict.runs.card {shlex.quote(f'runs/{tmp_path.name}/points-new')} --name points-row"
    assert shipping in (named / "README.md").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="letters, digits and dashes"):
        export(run, "../x", out=tmp_path / "models")
    (folder / "card.json").write_text(json.dumps({"name": "x"}), encoding="utf-8")
    with pytest.raises(ValueError, match="is not a model card"):
        Card.read(folder)


@pytest.mark.parametrize("name", shipped())
def test_the_command_on_a_card_builds_the_model_that_is_shipped(name: str):
    import tyro

    _, command, *words = shlex.split(Card.read(shipped()[name]).command.rpartition("&& ")[2])
    if command == "reproduce":
        study = studies()[words[0]]
        experiment = configure(study, study.row(words[words.index("--rows") + 1]), "small", 0)
    else:
        chosen, words = preset(words[0], words[2]), words[3:]  # pyright: ignore
        experiment = tyro.cli(TrainOptions, default=TrainOptions(chosen), args=words).experiment
    saved = SetPredictor.from_pretrained(shipped()[name]).config
    ours = experiment.model(read_card(shipped()[name] / "task.json"))
    assert (ours.latent, ours.encoder, ours.decoder) == (saved.latent, saved.encoder, saved.decoder)  # pyright: ignore
    assert (ours.input.kind, ours.input.depth, ours.input.width, ours.input.tail) == (
        saved.input.kind,  # pyright: ignore
        saved.input.depth,  # pyright: ignore
        saved.input.width,  # pyright: ignore
        saved.input.tail,  # pyright: ignore
    )


@pytest.mark.parametrize("name", ["points-mlp", "polygons-mlp", pytest.param("scenes-state", marks=pytest.mark.slow)])
def test_evaluating_a_shipped_model_gives_the_scores_on_its_card(name: str, capsys):
    (seen,) = evaluate_run(shipped()[name])
    card = Card.read(shipped()[name])
    assert seen.samples == card.samples
    assert seen.metrics == pytest.approx(card.metrics, rel=1e-3)
    assert not list(shipped()[name].glob("evaluation*"))
    assert run(["evaluate", name]) == 0
    assert "hungarian" in capsys.readouterr().out
