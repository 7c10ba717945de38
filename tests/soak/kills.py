"""Trainings that are killed at random times and resumed, on one process and on two."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

import torch

from setpredict.core.errors import UserError
from setpredict.runs.folder import RunFolder
from setpredict.runs.loaded import load
from tests.soak.processes import Job, text_of
from tests.soak.tally import Tally
from tests.training.comparing import differences

WORKER = ["-m", "tests.soak.worker"]
TWO_RANKS = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "tests.soak.worker"]
LONGEST = 180.0
"""Seconds after which a process hangs."""


def finished_state(run: RunFolder) -> dict:
    """Everything that must not depend on how often the run was killed."""
    content = torch.load(run.checkpoint_path, weights_only=True)
    steps = [int(row["step"]) for row in run.read_log()]
    return {"checkpoint": content, "best": dict(load(run.path).model.state_dict()), "log": steps}


def uninterrupted(folder: Path, steps: int, ranks: int = 1) -> dict:
    """The state of a run that nobody kills."""
    with Job([*(WORKER if ranks == 1 else TWO_RANKS), str(folder), str(steps)], folder.with_suffix(".log")) as job:
        code = job.wait(LONGEST)
        if code != 0:
            raise RuntimeError(f"the uninterrupted run ended with {code}: {job.said[-500:]}")
    return finished_state(RunFolder(folder))


def kill_and_resume(folder: Path, steps: int, expected: dict, rng: random.Random, tally: Tally, kills: int) -> None:
    """One run that is killed up to `kills` times, at any moment from its start on, and compared at its end."""
    run, log = RunFolder(folder), folder.with_suffix(".log")
    while not run.is_finished and kills >= 0:
        lock = text_of(run.lock_path)  # that of the process killed before
        with Job([*WORKER, str(folder), str(steps)], log) as job:
            if kills:
                _interrupt(job, run, lock, rng, tally)
            elif (code := job.wait(LONGEST)) != 0:
                tally.wrong("kills lost", f"resuming ended with {code}: {job.said[-300:]}")
                return
        kills -= 1
    _compare(run, expected, tally, "runs")
    shutil.rmtree(folder)


def _interrupt(job: Job, run: RunFolder, lock: str, rng: random.Random, tally: Tally) -> None:
    """End the process by a kill, or sometimes by a signal that it can answer; some in its start, most in its work."""
    if rng.random() < 0.2:
        time.sleep(rng.uniform(0, 5))
    else:
        job.wait_for_change(run.lock_path, lock, 60)
        time.sleep(rng.expovariate(1.0))
    if not job.is_running:
        return
    if rng.random() < 0.8 or text_of(run.lock_path) in ("", lock):
        job.process.kill()
        job.process.wait()
        tally.add("kills")
    else:
        number = rng.choice([signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
        job.process.send_signal(number)
        code = job.wait(LONGEST)
        tally.add("signals")
        if code not in (0, -number, 130, 1):  # before it can answer, a signal ends a process as it always does
            tally.wrong("signals lost", f"{number.name} ended with {code}: {job.said[-300:]}")
    _check_readable(run, tally)


def _check_readable(run: RunFolder, tally: Tally) -> None:
    if run.checkpoint_path.exists():
        try:
            torch.load(run.checkpoint_path, weights_only=True)
        except Exception as e:
            tally.wrong("kills lost", f"{run.checkpoint_path}: {e}")


def kill_a_rank(folder: Path, steps: int, expected: dict, rng: random.Random, tally: Tally) -> None:
    """One run on two ranks, of which one is killed; all processes must end, and two others resume it to its end."""
    run, log = RunFolder(folder), folder.with_suffix(".log")
    with Job([*TWO_RANKS, str(folder), str(steps)], log) as job:
        job.wait_for_change(run.lock_path, "", 90)
        time.sleep(rng.expovariate(2.0))
        ranks = [pid for pid in job.members() if pid != job.process.pid]
        if ranks and not run.is_finished:
            tally.add("rank kills")
            os.kill(rng.choice(ranks[-2:]), signal.SIGKILL)
            if job.wait(LONGEST) is None or job.members():
                tally.wrong("ranks lost", f"processes {job.members()} still run")
                return
            if "gloo" in job.said.replace("distributed_backend=gloo", "") or "[rank" in job.said:
                tally.wrong("ranks lost", f"a traceback of the communication: {job.said[-300:]}")
    if not run.is_finished:
        with Job([*TWO_RANKS, str(folder), str(steps)], log) as job:
            code = job.wait(LONGEST)
            if code != 0:
                tally.wrong("ranks lost", f"resuming ended with {code}: {job.said[-300:]}")
                return
        tally.add("ranks resumed")
    _compare(run, expected, tally, "rank runs")
    shutil.rmtree(folder)


def _compare(run: RunFolder, expected: dict, tally: Tally, name: str) -> None:
    tally.add(name)
    try:
        found = differences(finished_state(run), expected, ignore=("seconds",))
    except (UserError, OSError, RuntimeError) as e:
        found = [str(e)]
    left = [str(f) for f in run.path.rglob(".*.tmp")]
    if found or left:
        tally.wrong(f"{name} differ", ", ".join([*found[:3], *left]))
    else:
        tally.add(f"{name} equal")
