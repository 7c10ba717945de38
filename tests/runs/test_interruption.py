"""Runs that are stopped from outside: requests, SIGTERM and kill."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console

from setpredict.runs.folder import RunFolder
from setpredict.runs.train import train_run


def go(experiment, folder: Path, **options) -> None:
    train_run(experiment, folder, console=Console(quiet=True), **options)


def step_of(run: RunFolder) -> int:
    return torch.load(run.checkpoint_path, weights_only=True)["step"]


def launch(folder: Path) -> subprocess.Popen:
    """A run that writes a checkpoint at every step."""
    command = [sys.executable, "-m", "setpredict", "train", "multisets"]
    command += ["--out", str(folder.parent), "--name", folder.name]
    often = ["--max-steps", "100000", "--save-every", "1", "--val-every", "100000", "--log-every", "1"]
    small = ["--latent", "8", "--encoder.hidden", "8", "--decoder.steps", "2", "--batch-size", "4"]
    command += [*often, *small, "--max-minutes", "5"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_steps(run: RunFolder, process: subprocess.Popen, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if len(run.read_log()) > 3:
            return
        assert process.poll() is None, process.stdout.read()  # pyright: ignore
        time.sleep(0.1)
    raise AssertionError("no steps were logged")


def test_another_process_was_asked_to_stop(tiny, run_folder, monkeypatch):
    """All processes save and none writes the summary, though this one was not asked."""
    monkeypatch.setattr("setpredict.runs.training_run.any_rank", lambda fabric, flag: True)
    go(tiny, run_folder)
    assert step_of(RunFolder(run_folder)) == 1
    assert not RunFolder(run_folder).is_finished


def test_sigterm_finishes_the_step_saves_and_says_how_to_resume(run_folder):
    process, run = launch(run_folder), RunFolder(run_folder)
    wait_for_steps(run, process)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    assert f"setpredict train --resume {run_folder}" in out.replace("\n", "")
    step = step_of(run)
    assert step > 3
    experiment = run.read_experiment()
    experiment.train.max_steps = step + 2
    go(experiment, run_folder, resume=True)
    assert step_of(run) == step + 2


@pytest.mark.parametrize("delay", [0.013, *(pytest.param(d, marks=pytest.mark.slow) for d in (0.0, 0.037, 0.1))])
def test_kill_at_any_moment_leaves_a_checkpoint_that_loads(run_folder, delay):
    """A checkpoint is written at every step, so that most kills fall into a write."""
    process, run = launch(run_folder), RunFolder(run_folder)
    wait_for_steps(run, process)
    time.sleep(delay)
    process.kill()
    process.communicate(timeout=60)
    experiment = run.read_experiment()
    experiment.train.max_steps = step_of(run) + 1
    go(experiment, run_folder, resume=True)
    assert step_of(run) == experiment.train.max_steps
