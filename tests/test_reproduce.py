"""A whole table on a small part of MNIST, interrupted once and continued."""

import json

import pytest
from rich.console import Console

from setpredict import reproduce as module
from setpredict.presets import DataConfig
from setpredict.report.paper import TABLES
from setpredict.reproduce import lay_out, reproduce


def test_the_papers_numbers_are_all_there():
    assert TABLES["mnist"]["DSPN (all), 10 steps"]["chamfer"] == (0.09, 0.01)
    assert TABLES["clevr-box"]["DSPN (last), 20 steps"]["AP90"] == (12.3, 2.6)
    assert TABLES["clevr-state"]["DSPN (all), 30 steps"]["AP0.5"] == (66.8, 4.1)
    assert TABLES["clevr-state"]["iDSPN, 40 steps"]["AP0.125"] == (76.9, None)
    assert [len(rows) for rows in TABLES.values()] == [3, 8, 9]


def test_mean_and_spread_stand_beside_the_papers_numbers():
    entries = [
        {"row": "DSPN (all)", "minutes": m, "evaluations": [{"steps": 10, "metrics": {"chamfer": c, "size_error": 1}}]}
        for m, c in ((2.0, 0.0001), (4.0, 0.0003))
    ]
    heads, cells = lay_out("mnist", entries)
    assert heads == ["model", "chamfer ×1000", "minutes", "runs"]
    assert cells == [["DSPN (all), 10 steps", "0.200 ± 0.141 (0.09 ± 0.01)", "3.0", "2"]]


@pytest.mark.slow
def test_mnist_at_small_scale_interrupted_and_continued(real_data, tmp_path, monkeypatch):
    options = {"out": tmp_path / "runs", "results": tmp_path / "results", "steps": (10, 20), "max_steps": 3}
    options["data"] = DataConfig("mnist", train=64, val=8, test=16)
    trained, real = [], module.train_run

    def interrupted(experiment, folder, **rest):
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append(folder)
        return real(experiment, folder, **rest)

    monkeypatch.setattr(module, "train_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reproduce("mnist", "small", 2, console=Console(quiet=True), **options)
    assert len(trained) == 3
    again = []
    monkeypatch.setattr(module, "train_run", lambda e, f, **rest: (again.append(f), real(e, f, **rest)))
    content = reproduce("mnist", "small", 2, console=Console(quiet=True), **options)
    assert not set(trained) & set(again)
    assert len(again) == 7  # five rows, two seeds
    assert [(r["row"], r["seed"]) for r in content["runs"]][:3] == [("MLP", 0), ("MLP", 1), ("LSTM", 0)]
    assert all(e["samples"] == 16 for r in content["runs"] for e in r["evaluations"])
    saved = json.loads((tmp_path / "results" / "mnist-small.json").read_text())
    assert saved == json.loads(json.dumps(content))
    table = (tmp_path / "results" / "mnist-small.md").read_text()
    assert "(0.09 ± 0.01)" in table
    assert "DSPN (last), 20 steps" in table
