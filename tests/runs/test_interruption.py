"""Runs that are stopped from outside: requests, SIGTERM and kill."""

import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console

from setpredict.core.errors import UserError
from setpredict.runs.folder import RunFolder
from setpredict.runs.train import train_run


def go(experiment, folder: Path, **options) -> None:
    train_run(experiment, folder, console=Console(quiet=True), **options)


def step_of(run: RunFolder) -> int:
    return torch.load(run.checkpoint_path, weights_only=True)["step"]


def command_of(folder: Path) -> list[str]:
    """A run that writes a checkpoint at every step."""
    command = [sys.executable, "-m", "setpredict", "train", "multisets"]
    command += ["--out", str(folder.parent), "--name", folder.name]
    often = ["--max-steps", "100000", "--save-every", "1", "--val-every", "100000", "--log-every", "1"]
    small = ["--latent", "8", "--encoder.hidden", "8", "--decoder.steps", "2", "--batch-size", "4"]
    return [*command, *often, *small, "--max-minutes", "5"]


def launch(folder: Path, *more: str) -> subprocess.Popen:
    command = [*command_of(folder), *more]
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


def test_a_second_training_in_the_same_folder_names_the_first(run_folder, tiny):
    process, run = launch(run_folder), RunFolder(run_folder)
    wait_for_steps(run, process)
    try:
        host = re.escape(socket.gethostname())
        message = rf"tiny is in use: process {process.pid} on {host} has been training it since "
        for options in ({}, {"resume": True}):
            with pytest.raises(UserError, match=message):
                go(run.read_experiment(), run_folder, **options)
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate(timeout=60)
    assert run.lock_path.is_file()
    experiment = run.read_experiment()
    experiment.train.max_steps = step_of(run) + 1
    go(experiment, run_folder, resume=True)  # the lock of the killed process is taken over
    assert not run.lock_path.exists()


def test_a_second_interrupt_stops_at_once_and_says_that_the_checkpoint_is_intact(run_folder):
    """The first one finds it in a validation that takes for ever."""
    endless = ["--val-every", "7", "--data.val", "30000000", "--save-every", "5"]
    process, run = launch(run_folder, *endless), RunFolder(run_folder)
    end = time.monotonic() + 90
    while len(run.read_log()) < 7 and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    assert process.poll() is None, "it did not wait for the end of the step"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert f"Stopped at once. The last checkpoint, {run.checkpoint_path} of step 5, is intact. Resume with:" in out
    assert "Traceback" not in out
    assert step_of(run) == 5
    assert not list(run_folder.rglob(".*.tmp"))


@pytest.mark.skipif(sys.platform != "linux", reason="opens a terminal of its own")
def test_a_closed_terminal_saves_like_sigterm(run_folder):
    run = RunFolder(run_folder)
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, command_of(run_folder))
    end = time.monotonic() + 90
    while len(run.read_log()) <= 3 and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            os.read(terminal, 65536)
    os.close(terminal)  # the kernel sends SIGHUP to the processes of a terminal that is closed
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert not run.is_finished
    assert step_of(run) == int(run.read_log()[-1]["step"])
