"""`setpredict plot` and `setpredict report`, on real runs."""

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from setpredict.cli.main import run as command
from setpredict.config import DataConfig, DecoderConfig, Implicit, LastSteps
from setpredict.losses import hungarian_loss
from setpredict.report.figures.by_step import losses_by_step
from setpredict.report.figures.curves import training_curves
from setpredict.report.page import report_after_training, write_reports
from setpredict.report.plot import plot_run
from setpredict.report.run_sections import circumstances, evaluation_table, verdict
from setpredict.report.tables.set_sizes import size_confusion
from setpredict.report.watched import first_samples, watch, watch_beyond
from setpredict.runs.loaded import load
from setpredict.sets import Sets


class Outline(HTMLParser):
    """The headings of a page, and the addresses of everything that it loads."""

    def __init__(self, text: str):
        super().__init__()
        self.headings: list[str] = []
        self.fetched: list[str] = []
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.inside = tag
        self.fetched += [v for k, v in attrs if k in ("src", "href", "srcset", "data", "action") and v]

    def handle_data(self, data):
        if self.inside == "h2":
            self.headings.append(data)
        self.inside = ""


def test_plot_writes_pictures_that_open(runs: dict[str, Path], tmp_path: Path):
    files = plot_run(runs["dspn"], samples=[0, 3], steps=[0, 1, 5], baseline=runs["mlp"], out=tmp_path)
    assert sorted(f.name for f in files) == ["losses.pdf", "losses.png", "progression.pdf", "progression.png"]
    for file in files:
        if file.suffix == ".png":
            Image.open(file).load()
        else:
            assert b"%%EOF" in file.read_bytes()[-32:]


def test_plot_of_a_shipped_model_goes_to_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    options = ["--samples", "0", "--steps", "0", "2", "--baseline", "points-mlp"]
    assert command(["plot", "points-dspn", *options]) == 0
    assert {f.name for f in (tmp_path / "plots" / "points-dspn").iterdir()} == {
        "losses.pdf", "losses.png", "progression.pdf", "progression.png",
    }  # fmt: skip


def test_a_shipped_model_has_no_report(capsys: pytest.CaptureFixture):
    assert command(["report", "points-mlp"]) == 2
    assert "points-mlp is a shipped model" in capsys.readouterr().err


def test_watching_gives_the_loss_of_every_step(runs: dict[str, Path]):
    run = load(runs["dspn"])
    watched = watch(run, [3, 1], "val", steps=5)
    assert watched.set_loss.shape == watched.prediction.repr_loss.shape == (6, 2)  # pyright: ignore
    loss = hungarian_loss(watched.prediction.step(4), watched.batch.target)
    torch.testing.assert_close(watched.set_loss[4], loss)
    assert watched.ranked(4) == loss.argsort().tolist()
    assert watched.batch.index.tolist() == [3, 1]


def test_plot_of_objects_prints_their_table(scene_run: Path, capsys: pytest.CaptureFixture):
    assert command(["plot", str(scene_run), "--samples", "0", "--steps", "0", "4"]) == 0
    assert "step 4" in capsys.readouterr().out
    assert "\\begin{tabular}" in (scene_run / "plots" / "objects.tex").read_text(encoding="utf-8")
    assert "<table" in (scene_run / "plots" / "objects.html").read_text(encoding="utf-8")


def test_without_samples_the_first_four_are_drawn_or_all_there_are(runs: dict[str, Path]):
    run = load(runs["dspn"])
    assert first_samples(run, "test") == [0, 1, 2, 3]
    run.data = run.data.limited(test=2)
    assert first_samples(run, "test") == [0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--samples", "99"], "sample 99 is not in the test split, which has samples 0 to 19"),
        (["--steps", "-1"], "--steps must be from 0 to 1000"),
        (["--steps", "5000"], "--steps must be from 0 to 1000"),
    ],
)
def test_plot_names_the_wrong_option(runs: dict[str, Path], options, message, capsys: pytest.CaptureFixture):
    assert command(["plot", str(runs["dspn"]), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_one_shot_decoder_has_no_steps_to_plot(runs: dict[str, Path], capsys: pytest.CaptureFixture):
    assert command(["plot", str(runs["mlp"]), "--steps", "3"]) == 2
    assert "is a one-shot decoder and has no steps: leave out --steps 3" in capsys.readouterr().err


def test_plot_of_a_folder_that_is_not_a_run(tmp_path: Path, runs, scene_run: Path, capsys: pytest.CaptureFixture):
    assert command(["plot", str(tmp_path)]) == 2
    assert "is not a run" in capsys.readouterr().err
    assert command(["plot", str(runs["dspn"]), "--baseline", str(scene_run)]) == 2
    assert "was trained on" in capsys.readouterr().err


def test_a_report_is_complete_and_needs_no_network(runs: dict[str, Path]):
    (file,) = write_reports([runs["dspn"]])
    text = file.read_text(encoding="utf-8")
    page = Outline(text)
    assert page.headings == [
        "Evaluation", "Is it any good?", "Training", "Sets taking shape", "Beyond the trained steps", "Set sizes",
        "Settings", "Time and hardware",
    ]  # fmt: skip
    assert all(link.startswith("data:") for link in page.fetched)
    assert not re.search(r"https?://|@import|url\(", text)
    assert "DSPN, 4 steps" in text  # both evaluations


def test_reports_of_several_runs_are_compared(runs: dict[str, Path], tmp_path: Path):
    files = write_reports(list(runs.values()), tmp_path / "both.html")
    assert [f.name for f in files] == ["report.html", "report.html", "both.html"]
    text = files[-1].read_text(encoding="utf-8")
    page = Outline(text)
    assert page.headings == ["Scores", "Curves", "Step by step", "Samples side by side", "Settings that differ"]
    assert all(link.startswith("data:") for link in page.fetched)
    differing = text[text.index("Settings that differ") :]
    assert "decoder.kind" in differing
    assert "train.lr" not in differing


@pytest.mark.parametrize(
    ("decoder", "label"),
    [
        (DecoderConfig(), "DSPN"),
        (DecoderConfig(gradient=Implicit()), "iDSPN"),
        (DecoderConfig(gradient=LastSteps(1)), "DSPN, last-step gradient"),
        (DecoderConfig(gradient=LastSteps(10)), "DSPN"),
        (DecoderConfig("lstm"), "LSTM"),
        (DecoderConfig("my_module:MyDecoder"), "MyDecoder"),
    ],
)
def test_a_run_has_the_name_of_its_method(runs: dict[str, Path], decoder: DecoderConfig, label: str):
    run = load(runs["dspn"])
    run.experiment.decoder = decoder
    assert f"this run: {label}, 2 steps" in evaluation_table(run)


def test_a_decoder_without_a_representation_loss_has_a_report(runs: dict[str, Path]):
    run = load(runs["dspn"])
    assert verdict(run).startswith("2 inner steps. The set ")
    decode = run.model.forward
    run.model.forward = lambda *args, **options: replace(decode(*args, **options), repr_loss=None, grad_norm=None)
    assert verdict(run) == "2 inner steps."
    assert len(losses_by_step({"own": (watch_beyond(run), run.steps)}).axes) == 1


def test_machine_and_code_are_those_of_the_training(runs: dict[str, Path], tmp_path: Path):
    folder = Path(shutil.copytree(runs["dspn"], tmp_path / "run"))
    run = load(folder)
    (folder / "origin.json").write_text(json.dumps({"revision": "abc123", "hardware": "a large one"}))
    facts = circumstances(run)
    assert (facts["machine"], facts["code"]) == ("a large one", "abc123")
    assert not any(name.startswith("report") for name in facts)
    (folder / "origin.json").unlink()
    facts = circumstances(run)
    assert {"machine", "code"}.isdisjoint(facts)
    assert f"torch {torch.__version__}" in facts["report written on"]
    assert facts["report written by code"]


def test_the_papers_numbers_are_shown_for_its_own_data(runs: dict[str, Path]):
    run = load(runs["dspn"])
    assert "paper" not in evaluation_table(run)
    run.task.name = "mnist"  # also the name of a user's own folder
    assert "paper" not in evaluation_table(run)
    for data in (DataConfig("mnist"), DataConfig("clevr", "data/CLEVR_v1.0", target="box")):
        run.experiment.data = data
        assert "paper: DSPN (all), 10 steps" in evaluation_table(run)
    run.experiment.data = DataConfig("clevr", "my-renders", target="box")
    assert "paper" not in evaluation_table(run)


def test_a_run_without_evaluation_says_how_to_get_one(scene_run: Path):
    (file,) = write_reports([scene_run])
    text = file.read_text(encoding="utf-8")
    assert "Not evaluated on the test split yet" in text
    assert "The worst sample as text" in text


def test_a_failing_report_does_not_lose_the_run(tmp_path: Path):
    console = Console(record=True, width=200, quiet=False)
    with console.capture() as printed:
        report_after_training(tmp_path, console)
    assert "The run itself is complete" in printed.get()


def test_training_ends_with_a_report(tmp_path: Path, capsys: pytest.CaptureFixture):
    words = "train multisets --data.points 3 --data.test 8 --data.train 32 --max-steps 2 --latent 4 --decoder.steps 1"
    assert command([*words.split(), "--encoder.hidden", "4", "--out", str(tmp_path), "--name", "a"]) == 0
    assert (tmp_path / "a" / "report.html").is_file()
    assert json.loads((tmp_path / "a" / "done.json").read_text())["step"] == 2


def test_sizes_are_counted_and_many_are_grouped():
    n = 40
    target = Sets(torch.zeros(n + 1, n, 1), torch.arange(n) < torch.arange(n + 1)[:, None])
    counts, names = size_confusion(Sets(target.elements, target.mask.float()), target)
    assert counts.sum() == n + 1
    assert counts.trace() == n + 1
    assert names[0] == "0 to 3"
    assert names[-1] == "40 to 40"


def test_curves_have_one_panel_per_metric():
    log = [
        {"step": "2", "loss": "1.0"},
        {"step": "4", "loss": "0.5", "val_chamfer": "0.002", "val_size_accuracy": "0.5"},
        {"step": "6", "loss": "0.4", "val_chamfer": "0.001", "val_size_accuracy": "0.6"},
    ]
    figure = training_curves({"a": log})
    assert figure is not None
    assert [a.get_title() for a in figure.axes] == [
        "training loss", "validation chamfer ×1000", "validation size accuracy %",
    ]  # fmt: skip
    assert np.asarray(figure.axes[1].lines[0].get_ydata()).tolist() == [2.0, 1.0]
    assert training_curves({"a": []}) is None
