"""Shipped models: small, complete, described, loadable, and as good as their cards say."""

import shlex
from pathlib import Path

import pytest
import torch
import tyro

import setpredict
from setpredict.cli.main import run
from setpredict.cli.train import TrainOptions
from setpredict.core.errors import UserError
from setpredict.model import SetPredictor
from setpredict.presets import preset
from setpredict.resolve import model_config
from setpredict.runs.card import Card
from setpredict.runs.evaluate import evaluate_run
from setpredict.runs.loaded import load
from setpredict.runs.shipped import MOST_BYTES, shipped
from setpredict.studies import configure, studies


def test_there_is_a_model_for_every_page():
    assert {name.partition("-")[0] for name in shipped()} == {"digits", "points", "polygons", "scenes"}
    assert [n for n in shipped() if n.startswith("points")] == ["points-idspn", "points-dspn", "points-mlp"]


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_model_is_small_complete_and_described(name: str):
    folder, loaded = shipped()[name], load(name)
    card, config = Card.read(folder), loaded.model.config
    assert config is not None
    assert loaded.card == card
    assert loaded.folder is None
    assert loaded.method == card.method
    assert max(f.stat().st_size for f in folder.iterdir()) <= MOST_BYTES
    assert sum(p.numel() for p in loaded.model.parameters()) == card.parameters
    assert (config.max_size, config.features) == (loaded.task.max_size, loaded.task.features)
    assert loaded.experiment.decoder == config.decoder
    assert loaded.experiment.data.name == card.data["name"]
    SetPredictor.from_pretrained(folder)  # without permission for code of its own
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert text == card.markdown()
    for word in ("/work", "/tmp", "/home", "/root"):
        assert word not in text + str(card)


def test_a_shipped_model_has_no_run_folder():
    assert load("points-mlp").steps == 0
    with pytest.raises(UserError, match="points-mlp is a shipped model; this needs the folder of a run"):
        _ = load("points-mlp").own_folder


def test_a_folder_hides_the_shipped_model_of_its_name(tmp_path, monkeypatch):
    (tmp_path / "points-mlp").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="points-mlp is not a run"):
        load("points-mlp")


def test_the_package_stays_small():
    package = Path(setpredict.__file__).parent
    files = [f for f in package.rglob("*") if f.is_file() and "__pycache__" not in f.parts]
    assert sum(f.stat().st_size for f in files) < 15_000_000


@pytest.mark.parametrize("name", [n for n in shipped() if n.startswith("points")])
def test_points_come_back_better_than_chance(name: str):
    points = [[0.2, 0.3], [0.8, 0.2], [0.5, 0.8]]
    found = load(name).model.predict([points]).to_list()[0]
    assert len(found) == 3
    assert torch.cdist(torch.tensor(points), found).min(dim=1).values.max() < 0.25


@pytest.mark.parametrize("name", shipped())
def test_the_command_on_a_card_builds_the_shipped_model(name: str):
    _, command, *words = shlex.split(Card.read(shipped()[name]).command.rpartition("&& ")[2])
    if command == "reproduce":
        row, scale = (words[words.index(option) + 1] for option in ("--rows", "--scale"))
        study = studies(scale)[words[0]]  # pyright: ignore[reportArgumentType]
        experiment = configure(study, study.row(row), scale, 0)  # pyright: ignore[reportArgumentType]
    else:
        chosen, words = preset(words[0], words[2]), words[3:]  # pyright: ignore[reportArgumentType]
        experiment = tyro.cli(TrainOptions, default=TrainOptions(chosen), args=words).experiment
    loaded = load(name)
    saved, ours = loaded.model.config, model_config(experiment, loaded.task)
    assert saved is not None
    assert (ours.latent, ours.encoder, ours.decoder) == (saved.latent, saved.encoder, saved.decoder)
    fields = ("kind", "depth", "width", "tail")
    assert {f: getattr(ours.input, f) for f in fields} == {f: getattr(saved.input, f) for f in fields}


@pytest.mark.parametrize("name", ["points-mlp", "polygons-mlp", pytest.param("scenes-state", marks=pytest.mark.slow)])
def test_evaluating_a_shipped_model_gives_the_scores_on_its_card(name: str, capsys):
    (seen,) = evaluate_run(name)
    card = Card.read(shipped()[name])
    assert seen.samples == card.samples
    assert seen.metrics == pytest.approx(card.metrics, rel=1e-3)
    assert not list(shipped()[name].glob("evaluation*"))
    assert run(["evaluate", name]) == 0
    assert "hungarian" in capsys.readouterr().out
