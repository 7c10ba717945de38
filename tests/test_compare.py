"""`setpredict compare`: all methods on the same data, one page, resumable."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from setpredict.cli import compare as cli
from setpredict.cli.main import run
from setpredict.compare import compare, score_rows
from setpredict.config import DataConfig
from setpredict.core.errors import UserError
from setpredict.presets import METHODS, preset
from setpredict.runs.folder import RunFolder
from setpredict.runs.loaded import load
from setpredict.studies import changed

SMALL = ["--data.train", "16", "--data.val", "4", "--data.test", "5", "--batch-size", "4", "--latent", "8"]
SMALL += ["--encoder.hidden", "8", "--decoder.steps", "2", "--decoder.hidden", "8", "--decoder.width", "8"]
SMALL += ["--threads", "1"]


@pytest.fixture
def asked(monkeypatch) -> dict:
    """What the command line would compare."""
    found = {}
    monkeypatch.setattr(cli, "_compare", lambda experiments, out: found.update(experiments=experiments, out=out))
    return found


def test_methods_on_the_same_data_give_one_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = [
        "compare",
        "multisets",
        "--methods",
        "mlp",
        "slots",
        "transformer",
        *SMALL,
        "--max-steps",
        "2",
        "--val-every",
        "1",
    ]
    assert run(command) == 0
    folder = tmp_path / "runs" / "compare-multisets-0"
    page = (folder / "comparison.html").read_text(encoding="utf-8")
    for text in ("3 runs compared", "MLP", "Slot Attention", "Transformer", "Curves", "Samples side by side"):
        assert text in page, text
    printed = capsys.readouterr().out
    assert "Slot Attention" in printed
    assert "comparison.html" in printed
    assert {RunFolder(folder / m).read_experiment().data.train for m in ("mlp", "slots", "transformer")} == {16}
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/done.json")}
    (folder / "transformer" / "done.json").unlink()  # as if it had been interrupted at the end
    assert run(command) == 0
    after = {path: path.stat().st_mtime_ns for path in folder.glob("*/done.json")}
    changed = {path.parent.name for path in before if after[path] != before[path]}
    assert changed == {"transformer"}
    (folder / "comparison.html").unlink()
    capsys.readouterr()
    with monkeypatch.context() as other_process:
        other_process.setenv("LOCAL_RANK", "1")
        assert run(command) == 0
    assert capsys.readouterr().out == ""
    assert not (folder / "comparison.html").exists()  # the first process prints and writes
    assert run([*command, "--lr", "0.5"]) == 2
    assert "was trained with other settings" in capsys.readouterr().err


def test_a_comparison_on_own_data_continues(tmp_path, monkeypatch, capsys):
    """Options that were left to the data are no other settings."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    lines = [json.dumps({"input": [i, 1.0], "set": [[0.1 * i, 0.5]] * (1 + i % 3)}) for i in range(20)]
    (tmp_path / "data" / "train.jsonl").write_text("\n".join(lines))
    small = ["--encoder.hidden", "8", "--decoder.steps", "2", "--decoder.hidden", "8", "--batch-size", "4"]
    limits = ["--max-steps", "2", "--threads", "1"]
    command = ["compare", "folder", "--data.folder", "data", "--methods", "mlp", "idspn", *small, *limits]
    assert run(command) == 0
    (tmp_path / "runs" / "compare-folder-0" / "idspn" / "done.json").unlink()  # as if it had been interrupted
    assert run(command) == 0
    assert run([*command, "--latent", "32"]) == 2
    assert "was trained with other settings" in capsys.readouterr().err


def test_options_hold_for_every_method(asked):
    words = ["polygons", "--minutes", "0.5", "--methods", "mlp", "idspn", "--train.seed", "3", "--lr", "0.01"]
    assert run(["compare", *words]) == 0
    assert asked["out"] == Path("runs/compare-polygons-3")
    assert list(asked["experiments"]) == ["mlp", "idspn"]
    for experiment in asked["experiments"].values():
        assert (experiment.train.max_minutes, experiment.train.seed, experiment.train.lr) == (0.5, 3, 0.01)
    assert [e.decoder.method for e in asked["experiments"].values()] == ["MLP", "iDSPN"]


def test_defaults_and_scales(asked):
    assert run(["compare", "multisets"]) == 0
    assert list(asked["experiments"]) == ["mlp", "dspn", "idspn", "slots", "transformer"]
    assert all(e.train.max_minutes == 5 for e in asked["experiments"].values())
    assert run(["compare", "multisets", "--scale", "paper", "--methods", "my_module:MyDecoder", "mlp"]) == 0
    assert list(asked["experiments"]) == ["MyDecoder", "mlp"]
    assert asked["experiments"]["MyDecoder"].decoder.kind == "my_module:MyDecoder"
    assert asked["experiments"]["mlp"].train.max_minutes is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "which preset? setpredict compare PRESET"),
        (["coco"], "there is no preset 'coco'"),
        (["multisets", "--methods", "mlp", "svm"], f"--methods takes some of {', '.join(METHODS)}, got 'svm'"),
        (["multisets", "--methods"], "got 'nothing'"),
        (["multisets", "--methods", "mlp", "mlp"], "--methods has mlp more than once"),
        (["multisets", "--methods", "mlp"], "a comparison needs at least two methods, got mlp"),
        (["multisets", "--minutes", "0"], "--minutes must be above 0, got 0"),
        (["multisets", "--scale", "large"], "--scale must be one of paper, medium, small"),
    ],
)
def test_mistakes_are_one_line(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["compare", *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_different_data_are_not_compared(tmp_path):
    one, other = preset("multisets", "mlp"), preset("multisets", "dspn")
    other.data = DataConfig("multisets", points=3)
    with pytest.raises(UserError, match="a comparison needs the same data for all methods"):
        compare({"mlp": one, "dspn": other}, tmp_path / "runs")
    assert list(tmp_path.iterdir()) == []


def test_two_variants_of_one_method_are_told_apart(tmp_path):
    small = {"data.train": 16, "data.val": 8, "data.test": 8, "train.max_steps": 1, "decoder.hidden": (8,)}
    given = {
        name: changed(preset("multisets", "mlp"), {**small, "train.lr": lr})
        for name, lr in (("slow", 1e-4), ("fast", 1e-2))
    }
    compare(given, tmp_path, Console(quiet=True))
    heads, cells = score_rows({name: load(tmp_path / name) for name in given})
    assert heads[:2] == ["name", "method"]
    assert [row[:2] for row in cells] == [["slow", "MLP"], ["fast", "MLP"]]
    heads, cells = score_rows({"mlp": load(tmp_path / "slow")})
    assert (heads[0], cells[0][0]) == ("method", "MLP")
