"""Damaged files of a run: named, never used, and the previous checkpoint in their place."""

import io
import random
from pathlib import Path

import pytest
import torch
from rich.console import Console

from setpredict.core.checksums import Damaged
from setpredict.core.errors import UserError
from setpredict.runs.folder import RunFolder
from setpredict.runs.loaded import load
from setpredict.runs.train import train_run
from setpredict.runs.training_run import Diverged, TrainingRun
from setpredict.training.checkpoint import save_checkpoint
from setpredict.training.devices import make_fabric
from setpredict.training.loop import TrainState
from tests.training.comparing import differences

WEIGHT = "decoder.encoder.network.0.weight"


def go(experiment, folder: Path, **options) -> str:
    """Train; what was said."""
    said = Console(file=io.StringIO(), width=400, record=True)
    train_run(experiment, folder, console=said, **options)
    return said.export_text()


def content(path: Path) -> dict:
    return torch.load(path, weights_only=True)


def flip(path: Path, at: float) -> None:
    """Change one bit of a file at a fraction of its length."""
    data = bytearray(path.read_bytes())
    data[int(at * (len(data) - 1))] ^= 4
    path.write_bytes(data)


DAMAGE = {
    "flipped start": lambda path: flip(path, 0.0),
    "flipped end": lambda path: flip(path, 1.0),
    **{f"flipped {i}": lambda path, i=i: flip(path, random.Random(i).random()) for i in range(4)},
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "truncated by one byte": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "text": lambda path: path.write_text("text"),
    "another file": lambda path: torch.save({"step": 1}, path),
    "a number": lambda path: torch.save(3, path),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_named_and_the_previous_one_is_used(tiny, run_folder, damage):
    go(tiny, run_folder)
    run = RunFolder(run_folder)
    uninterrupted, step = content(run.checkpoint_path), content(run.previous_checkpoint_path)["step"]
    assert step < uninterrupted["step"]
    DAMAGE[damage](run.checkpoint_path)
    bad = run.checkpoint_path.read_bytes()
    said = go(tiny, run_folder, resume=True)
    (line,) = [line for line in said.splitlines() if "previous.ckpt" in line]
    assert line.startswith(str(run.checkpoint_path))
    assert f": continuing from previous.ckpt, step {step}. The damaged one is now damaged.ckpt." in line
    assert differences(content(run.checkpoint_path), uninterrupted, ignore=("seconds",)) == []
    assert run.damaged_checkpoint_path.read_bytes() == bad
    steps = [int(row["step"]) for row in run.read_log()]
    assert steps == [2, 4, 5, 6, 8, 10, 10, 12, 12], "rows after the previous checkpoint were not dropped"


def test_the_damaged_checkpoint_never_replaces_the_previous_one(tiny, run_folder):
    go(tiny, run_folder)
    run = RunFolder(run_folder)
    flip(run.checkpoint_path, 0.5)
    run.summary_path.unlink()  # as if it had been killed at its end
    tiny.train.max_steps = content(run.previous_checkpoint_path)["step"]  # nothing left to train
    go(tiny, run_folder, resume=True)
    assert content(run.checkpoint_path)["step"] == content(run.previous_checkpoint_path)["step"] == tiny.train.max_steps


def test_a_missing_last_checkpoint_is_replaced_by_the_previous_one(tiny, run_folder):
    go(tiny, run_folder)
    run = RunFolder(run_folder)
    run.checkpoint_path.unlink()
    said = go(tiny, run_folder, resume=True)
    assert "last.ckpt not found: continuing from previous.ckpt, step 10." in said
    assert content(run.checkpoint_path)["step"] == 12


def test_two_damaged_checkpoints_are_both_named_in_one_line(tiny, run_folder):
    go(tiny, run_folder)
    run = RunFolder(run_folder)
    flip(run.checkpoint_path, 0.5)
    run.previous_checkpoint_path.write_bytes(b"")
    before = {f: f.read_bytes() for f in run_folder.rglob("*") if f.is_file()}
    with pytest.raises(
        UserError, match=r"last.ckpt is damaged: .*, and .*previous.ckpt is not a.*--init-from"
    ) as raised:
        go(tiny, run_folder, resume=True)
    assert "\n" not in str(raised.value)
    run.previous_checkpoint_path.unlink()
    with pytest.raises(UserError, match=r"last.ckpt is damaged: its checksum .*, and there is no previous.ckpt: start"):
        go(tiny, run_folder, resume=True)
    assert {f: f.read_bytes() for f in before if f.exists()} == {f: b for f, b in before.items() if f.exists()}


def test_a_checkpoint_of_a_newer_version_is_not_damaged(tiny, run_folder):
    go(tiny, run_folder)
    torch.save({"version": 3}, RunFolder(run_folder).checkpoint_path)
    with pytest.raises(UserError, match="is a checkpoint of version 3, expected 1 to 2") as raised:
        go(tiny, run_folder, resume=True)
    assert not isinstance(raised.value, Damaged)


@pytest.mark.parametrize("part", ["model", "average"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_checkpoint_with_weights_that_are_not_finite_is_not_used(tiny, run_folder, part, value):
    go(tiny, run_folder)
    run = RunFolder(run_folder)
    bad = content(run.checkpoint_path)
    bad[part][WEIGHT][0, 0] = value
    torch.save(bad, run.checkpoint_path)
    said = go(tiny, run_folder, resume=True)
    assert "last.ckpt has weights that are not finite: " in said
    assert f"{WEIGHT}: continuing from previous.ckpt, step 10." in said


def test_weights_that_are_not_finite_are_not_saved(tiny, run_folder, monkeypatch):
    """The checkpoint on the disk stays the last good one, and the error says so."""
    report = TrainingRun.report

    def spoil(self, step):
        report(self, step)
        if self.state.step == 6:
            self.state.model.get_parameter(WEIGHT).data[0, 0] = float("nan")

    monkeypatch.setattr(TrainingRun, "report", spoil)
    with pytest.raises(Diverged, match=r"the weights .*network.0.weight are not finite.* last good checkpoint is "):
        go(tiny, run_folder)
    assert content(RunFolder(run_folder).checkpoint_path)["step"] == 5
    tiny.train.on_divergence = "rollback"
    with pytest.raises(Diverged, match="3 rollbacks did not help"):
        go(tiny, run_folder, resume=True)


def test_the_same_step_is_kept_once(tiny, run_folder):
    """The end of a training saves twice at the last step; the previous checkpoint is still of an earlier one."""
    go(tiny, run_folder)
    run = RunFolder(run_folder)
    assert (content(run.checkpoint_path)["step"], content(run.previous_checkpoint_path)["step"]) == (12, 10)


def test_damaged_best_weights_are_named(tiny, run_folder):
    go(tiny, run_folder)
    (weights,) = RunFolder(run_folder).best_path.glob("*.safetensors")
    good = weights.read_bytes()
    for i in range(10):
        flip(weights, random.Random(i).uniform(0.5, 1.0))
        with pytest.raises(Damaged, match=r"model.safetensors is damaged: its checksum does not match"):
            load(run_folder)
        weights.write_bytes(good)
    weights.write_bytes(good[:-7])
    with pytest.raises(Damaged, match=r"model.safetensors is not a readable safetensors file"):
        load(run_folder)


def test_temporary_files_of_a_killed_training_are_swept_on_resuming(tiny, run_folder):
    go(tiny, run_folder)
    leftovers = [run_folder / ".last.ckpt.abc.tmp", run_folder / "best" / ".model.safetensors.abc.tmp"]
    writing = run_folder / ".evaluation-test.json.abc.tmp"  # by another process, perhaps
    for file in (*leftovers, writing):
        file.write_text("half")
    go(tiny, run_folder, resume=True)
    assert [file for file in leftovers if file.exists()] == []
    assert writing.exists()


def test_a_checkpoint_written_elsewhere_is_complete(tiny, tmp_path):
    """`save_checkpoint` alone: the file has its checksum, and is readable by torch alone."""
    from setpredict.build import make_task
    from setpredict.core.checksums import verify_zip_checksum
    from setpredict.model import SetPredictor
    from setpredict.resolve import model_config

    fabric = make_fabric(tiny.train)
    model = SetPredictor.from_config(model_config(tiny, make_task(tiny.data)))
    save_checkpoint(tmp_path / "a.ckpt", TrainState.fresh(fabric, model, tiny.train))
    verify_zip_checksum(tmp_path / "a.ckpt")
    assert [p.name for p in tmp_path.iterdir()] == ["a.ckpt"]
    assert content(tmp_path / "a.ckpt")["step"] == 0
