"""Two processes on one machine give the weights, gradients and evaluation of one process."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from setpredict.core.log_file import read_log
from setpredict.runs.folder import RunFolder
from tests.training.comparing import assert_close, differences
from tests.training.distributed_check import main

HERE = Path(__file__).parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def children(parent: int) -> list[int]:
    """The child processes of a process, from Linux's /proc."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if f"\nPPid:\t{parent}\n" in status.read_text():
                found.append(int(status.parent.name))
    return sorted(found)


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def on_two_processes(folder: Path, kind: str) -> None:
    """Run `distributed_check.py` on two processes with batches of 4 each."""
    command = [*TORCHRUN, str(HERE / "distributed_check.py"), str(folder), kind, "4"]
    done = subprocess.run(command, timeout=240, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "decoder", ["dspn", *(pytest.param(m, marks=pytest.mark.slow) for m in ("idspn", "slots", "transformer", "mlp"))]
)
def test_two_processes_are_one_with_the_joint_batch(decoder, tmp_path):
    """Adam's first moment holds the gradients of both steps."""
    two, one = tmp_path / "two", tmp_path / "one"
    two.mkdir()
    one.mkdir()
    on_two_processes(two, decoder)
    main(one, decoder, 8)
    first, second, alone = (torch.load(p, weights_only=True) for p in (two / "0.pt", two / "1.pt", one / "0.pt"))
    assert differences(first["weights"], second["weights"]) == []
    assert_close(first["moments"], alone["moments"], rtol=1e-5, atol=1e-8)
    assert first["metrics"] == second["metrics"]
    assert first["metrics"] == pytest.approx(alone["metrics"], rel=1e-4)  # weights differ in their last bits


@pytest.mark.parametrize(
    "kind", ["warm-up", *(pytest.param(k, marks=pytest.mark.slow) for k in ("image", "dense", "slots on images"))]
)
def test_two_processes_validate_the_same_model(tmp_path, kind):
    on_two_processes(tmp_path, kind)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    assert len(first["buffers"]) > 10
    assert differences(first["buffers"], second["buffers"]) == []


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the ranks in Linux's /proc")
@pytest.mark.parametrize("launcher", ["torchrun", pytest.param("devices", marks=pytest.mark.slow)])
@pytest.mark.parametrize("rank", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_a_killed_rank_ends_the_job_in_one_line_and_leaves_a_checkpoint(tmp_path, launcher, rank):
    small = ["--latent", "8", "--encoder.hidden", "8", "--decoder.steps", "2", "--batch-size", "4", "--threads", "1"]
    often = ["--save-every", "1", "--log-every", "1", "--val-every", "100000", "--max-steps", "1000000"]
    command = ["-m", "setpredict", "train", "multisets", "--out", str(tmp_path), "--name", "run", *small, *often]
    command = [*TORCHRUN, *command] if launcher == "torchrun" else [sys.executable, *command, "--devices", "2"]
    run = RunFolder(tmp_path / "run")
    job = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        end = time.monotonic() + 120
        while len(read_log(run.log_path)) < 4:
            assert time.monotonic() < end
            assert job.poll() is None, job.stdout.read()  # pyright: ignore
            time.sleep(0.2)
        ranks = [*([job.pid] if launcher == "devices" else []), *children(job.pid)]
        os.kill(ranks[rank], signal.SIGKILL)
        said, _ = job.communicate(timeout=60)
        assert job.returncode != 0
    finally:
        job.kill()
    line = "setpredict: another of the 2 processes ended. The last checkpoint is intact. Resume with: "
    assert [text.partition("setpredict train")[0] for text in said.splitlines() if "setpredict: " in text] == [line]
    assert "gloo" not in said.replace("distributed_backend=gloo", "")
    assert "[rank" not in said
    assert torch.load(run.checkpoint_path, weights_only=True)["step"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["torchrun", "devices"])
def test_a_complete_run_on_two_processes_ends_with_its_evaluation(launcher, tmp_path):
    words = ["-m", "setpredict", "train", "multisets", "--out", str(tmp_path), "--name", "run", "--no-pictures"]
    words += ["--latent", "8", "--encoder.hidden", "8", "--decoder.steps", "2", "--batch-size", "4", "--threads", "1"]
    words += ["--max-steps", "4", "--val-every", "2", "--data.val", "9", "--data.test", "21"]
    command = [*TORCHRUN, *words] if launcher == "torchrun" else [sys.executable, *words, "--devices", "2"]
    done = subprocess.run(command, timeout=240, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    run = RunFolder(tmp_path / "run")
    rows = run.read_evaluation("test")
    assert rows is not None
    assert [row["samples"] for row in rows] == [21]
    assert run.report_path.is_file()
    assert done.stdout.count("Run:") == 1
