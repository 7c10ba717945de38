"""Runs that meet a value that is not finite."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from setpredict.cli.main import run
from setpredict.config import GradientDescent
from setpredict.core.errors import UserError
from setpredict.runs import train as train_module
from setpredict.runs.folder import RunFolder
from setpredict.runs.train import train_run
from setpredict.runs.training_run import Diverged
from setpredict.training.log import RunLog


def go(experiment, folder: Path) -> None:
    train_run(experiment, folder, console=Console(quiet=True))


def content(folder: Path) -> dict:
    return torch.load(RunFolder(folder).checkpoint_path, weights_only=True)


class Poison:
    """A split whose item 13 is broken."""

    def __init__(self, split, once: bool):
        self.split, self.once, self.met = split, once, 0

    def __len__(self):
        return len(self.split)

    def batch(self, indices, epoch):
        batch = self.split.batch(indices, epoch)
        bad = (batch.index == 13).nonzero()
        if len(bad) and not (self.once and self.met):
            self.met += 1
            batch.input.elements[bad[0, 0]] = float("nan")
        return batch


def poison(monkeypatch, once: bool) -> None:
    make_task = train_module.make_task

    def make(data):
        task = make_task(data)
        return replace(task, train=Poison(task.train, once))

    monkeypatch.setattr(train_module, "make_task", make)


def test_a_broken_batch_stops_with_the_reason(tiny, run_folder, monkeypatch):
    poison(monkeypatch, once=False)
    with pytest.raises(Diverged, match=r"At step \d+, .*nan.*last good checkpoint is .*last.ckpt.*--on-divergence"):
        go(tiny, run_folder)
    weights = content(run_folder)["model"]
    assert [name for name, w in weights.items() if not w.isfinite().all()] == []
    assert not RunFolder(run_folder).is_finished


def test_the_log_of_a_training_that_diverges_is_closed(tiny, run_folder, monkeypatch):
    poison(monkeypatch, once=False)
    closed, close = [], RunLog.close
    monkeypatch.setattr(RunLog, "close", lambda self: closed.append(self) or close(self))
    with pytest.raises(Diverged):
        go(tiny, run_folder)
    assert len(closed) == 1


def test_rollback_continues_with_a_smaller_learning_rate(tiny, run_folder, monkeypatch):
    poison(monkeypatch, once=True)
    tiny.train.on_divergence = "rollback"
    go(tiny, run_folder)
    found = {name: content(run_folder)[name] for name in ("lr_scale", "rollbacks", "step")}
    assert found == {"lr_scale": 0.5, "rollbacks": 1, "step": 12}
    steps = [int(row["step"]) for row in RunFolder(run_folder).read_log()]
    assert steps == [2, 4, 5, 6, 8, 10, 10, 12, 12]


def test_rollback_gives_up_on_a_batch_that_stays_broken(tiny, run_folder, monkeypatch):
    poison(monkeypatch, once=False)
    tiny.train.on_divergence = "rollback"
    with pytest.raises(Diverged, match="3 rollbacks did not help: look at the data of that step"):
        go(tiny, run_folder)


def test_divergence_is_reported_in_one_line():
    assert issubclass(Diverged, UserError)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--lr", "1e38"], "setpredict: --lr must be from 0 to 1e+06, got 1e+38\n"),
        (["--weight-decay", "1e300"], "setpredict: --weight-decay must be from 0 to 1e+06, got 1e+300\n"),
        (["--seed", "1" * 20], f"setpredict: --seed must be below 2^63, got {'1' * 20}\n"),
    ],
)
def test_options_that_overflow_are_one_line_before_anything_is_written(run_folder, capfd, option, message):
    where = ["--out", str(run_folder.parent), "--name", run_folder.name]
    assert run(["train", "multisets", *option, *where]) == 2
    assert capfd.readouterr().err == message
    assert not run_folder.exists()


def test_a_clipping_norm_that_overflows_is_named():
    with pytest.raises(UserError, match=r"clip_norm must be from 1e-18 to 1e18, or None for no clipping, got 1e\+38"):
        GradientDescent(clip_norm=1e38)
