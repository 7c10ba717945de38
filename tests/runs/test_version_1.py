"""Runs written by version 0.1 load, predict, evaluate and resume; shipped models predict what they always did."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from setpredict.runs.evaluate import evaluate_run
from setpredict.runs.folder import RunFolder
from setpredict.runs.loaded import load
from setpredict.runs.shipped import shipped
from setpredict.runs.train import train_run
from setpredict.sets import Sets
from tests.training.comparing import assert_close

HERE = Path(__file__).parent
RUNS = sorted(path.name for path in (HERE / "version_1").iterdir())


@pytest.fixture
def old(request, tmp_path: Path) -> RunFolder:
    """A copy of the run of that name."""
    return RunFolder(shutil.copytree(HERE / "version_1" / request.param, tmp_path / request.param))


def values(sets: Sets) -> dict[str, torch.Tensor]:
    return {"elements": sets.elements, "mask": sets.mask}


def test_there_are_old_runs():
    assert RUNS == ["idspn", "last-steps", "mlp", "relation-predicted"]


@pytest.mark.parametrize("old", RUNS, indirect=True)
def test_an_old_run_predicts_the_same(old):
    predicted = load(old.path).model.predict([[[0.1, 0.2], [0.3, 0.9]]])
    assert_close(values(predicted), load_file(old.path / "prediction.safetensors"), rtol=0, atol=1e-6)


@pytest.mark.parametrize("old", RUNS, indirect=True)
def test_an_old_run_evaluates_the_same(old):
    before = old.read_evaluation("test")
    assert before is not None
    rows = evaluate_run(old.path)
    assert [r.steps for r in rows] == [r["steps"] for r in before]
    for row, expected in zip(rows, before):
        assert row.metrics == pytest.approx(expected["metrics"], rel=1e-5)
        assert row.samples == expected["samples"]


@pytest.mark.parametrize("old", RUNS, indirect=True)
def test_an_old_run_resumes(old):
    before = torch.load(old.checkpoint_path, weights_only=True)
    experiment = old.read_experiment()
    experiment.train.max_steps = before["step"] + 3
    train_run(experiment, old.path, resume=True, console=Console(quiet=True))
    after = torch.load(old.checkpoint_path, weights_only=True)
    assert (after["step"], after["version"]) == (before["step"] + 3, 2)
    assert "optimiser" not in after
    steps = {float(s["step"]) for s in after["optimizer"]["state"].values()}
    assert steps == {before["step"] + 3.0}, "the optimizer's state was not restored"
    assert [int(row["step"]) for row in old.read_log()] == [3, 6, 6, 9, 9]
    assert old.is_finished


@pytest.mark.parametrize("old", RUNS, indirect=True)
def test_resuming_an_old_run_restores_its_weights(old):
    """With nothing left to train, the checkpoint is written back, in the new form, with the old numbers."""
    before = torch.load(old.checkpoint_path, weights_only=True)
    train_run(old.read_experiment(), old.path, resume=True, console=Console(quiet=True))
    after = torch.load(old.checkpoint_path, weights_only=True)
    for part in ("model", "average"):
        renamed = {k: v for k, v in after[part].items() if not k.endswith("initial.evaluation")}
        assert len(renamed) == len(before[part])
        for (name, now), (old_name, then) in zip(renamed.items(), before[part].items()):
            assert torch.equal(now, then), f"{part}: {name} is not the old {old_name}"


def example(name: str) -> Sets:
    """The prediction of a shipped model for a fixed input, computed in float64.

    Where the set encoder's sort swaps two elements, the inner loop amplifies the rounding of float32, which differs
    between machines, to as much as 1e-2; that of float64 stays below 1e-8.
    """
    model, rng = load(name).model.double(), np.random.default_rng(0)
    config = model.config
    assert config is not None
    size = config.input.size
    if config.input.kind in ("conv", "resnet"):
        return model.predict(torch.from_numpy(rng.random((2, 3, size, size), dtype=np.float32)))
    if config.input.kind == "vector":
        return model.predict(torch.from_numpy(rng.random((2, size), dtype=np.float32)))
    most = config.input.max_size or config.max_size
    sizes = (most // 2, most // 3) if config.variable else (most, most)
    return model.predict([rng.random((n, size), dtype=np.float32) for n in sizes])


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_model_predicts_the_same(name: str):
    """The file has what `example` returned in version 0.1 (commit 2d611ab, with `fast=False`).

    digits-dspn, scenes-box and scenes-state were trained later: for them it has what `example` returns since then.
    """
    expected = load_file(HERE / "shipped_predictions.safetensors")
    expected = {k: expected[f"{name}.{k}"] for k in ("elements", "mask")}
    assert_close(values(example(name)), expected, rtol=0, atol=1e-6)


def test_every_shipped_model_has_its_predictions():
    names = {key.partition(".")[0] for key in load_file(HERE / "shipped_predictions.safetensors")}
    assert names == set(shipped())
