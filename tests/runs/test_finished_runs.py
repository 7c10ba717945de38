"""Resuming a finished run: it goes on if its limits were raised, and otherwise nothing is changed. What ended a run."""

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from setpredict.config import TrainConfig
from setpredict.core.errors import UserError
from setpredict.runs.evaluate import evaluate_run
from setpredict.runs.folder import RunFolder
from setpredict.runs.train import train_run
from setpredict.training.limits import ended_by


def go(experiment, folder: Path, **options) -> str:
    text = io.StringIO()
    train_run(experiment, folder, console=Console(file=text, width=200), **options)
    return text.getvalue()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(f): f.read_bytes() for f in folder.rglob("*") if f.is_file() and f.name != "training.lock"}


def test_other_options_that_leave_nothing_to_train_change_nothing(tiny, run_folder):
    assert "Training ended by --max-steps 12 (after 1.5 of --epochs 100), at step 12" in go(tiny, run_folder)
    before = contents(run_folder)
    other = replace(tiny, train=replace(tiny.train, lr=1.0))
    with pytest.raises(
        UserError, match=r"was finished at step 12, after .* minutes: nothing was changed.* --init-from"
    ):
        go(other, run_folder, resume=True)
    assert contents(run_folder) == before
    assert "was finished at step 12" in go(tiny, run_folder, resume=True)
    assert RunFolder(run_folder).is_finished


def test_a_finished_run_goes_on_with_a_higher_limit(tiny, run_folder):
    go(tiny, run_folder)
    further = replace(tiny, train=replace(tiny.train, max_steps=15))
    text = go(further, run_folder, resume=True)
    assert re.search(r"was finished at step 12, after \d\.\d minutes: its training continues\.", text)
    summary = RunFolder(run_folder).read_summary()
    assert summary
    assert summary["step"] == 15
    assert summary.get("ended_by", "").startswith("--max-steps 15")


@pytest.mark.parametrize(
    ("train", "step", "seconds", "expected"),
    [
        (TrainConfig(epochs=100, max_minutes=3.5), 1000, 110.0, "--epochs 100 (after 1.8 of --max-minutes 3.5)"),
        (TrainConfig(epochs=100, max_minutes=3.5), 999, 210.0, "--max-minutes 3.5 (after 99.9 of --epochs 100)"),
        (TrainConfig(epochs=10, max_steps=100), 100, 1.0, "--epochs 10 and --max-steps 100"),
        (TrainConfig(epochs=10, patience=3), 50, 1.0, "--patience 3"),
        (TrainConfig(epochs=10, accumulate=2), 50, 1.0, "--epochs 10"),
        (TrainConfig(epochs=10**6, max_minutes=15.0), 9, 900.0, "--max-minutes 15"),
        (TrainConfig(epochs=9, max_steps=2000000), 90, 1.0, "--epochs 9 (after 90 of --max-steps 2000000)"),
    ],
)
def test_the_limit_that_ended_a_run(train: TrainConfig, step: int, seconds: float, expected: str):
    assert ended_by(train, step, seconds, epochs=step * train.accumulate / 10) == expected


def test_better_weights_do_not_keep_the_scores_of_others(tiny, run_folder):
    go(tiny, run_folder)
    folder = RunFolder(run_folder)
    evaluate_run(run_folder)
    assert folder.read_evaluation()
    go(tiny, run_folder, resume=True)  # nothing to train
    assert folder.read_evaluation()
    assert "best so far" in go(replace(tiny, train=replace(tiny.train, max_steps=15)), run_folder, resume=True)
    assert folder.read_evaluation() is None
