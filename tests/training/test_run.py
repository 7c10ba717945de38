"""Runs that survive: resume to the bit, interruption, kill, divergence, and errors that change nothing."""

import io
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from setpredict.config import ConfigError, to_dict
from setpredict.model import SetPredictor
from setpredict.presets import preset
from setpredict.report.figures.pictures import save_validation_picture
from setpredict.reproduce import finish
from setpredict.studies import changed
from setpredict.training.interrupt import StopRequest
from setpredict.training.log import RunLog, read_log
from setpredict.runs.train import Diverged, evaluate_run, read_experiment, train_run

QUIET = Console(quiet=True)


def go(experiment, folder: Path, **options):
    return train_run(experiment, folder, console=QUIET, **options)


def content(folder: Path) -> dict:
    return torch.load(folder / "last.ckpt", weights_only=True)


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a if k != "seconds")
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def test_a_run_leaves_everything_behind(tiny, run_folder):
    tiny.train.pictures = True
    seen = go(tiny, run_folder, draw=save_validation_picture)
    assert seen is not None
    assert seen.metrics["hungarian"] > 0
    names = {p.name for p in run_folder.iterdir()}
    assert names >= {"config.json", "task.json", "last.ckpt", "best", "log.csv", "tensorboard", "pictures", "done.json"}
    assert read_experiment(run_folder) == tiny
    rows = read_log(run_folder / "log.csv")
    assert [int(r["step"]) for r in rows] == [2, 4, 5, 6, 8, 10, 10, 12, 12]
    assert {"loss", "set_Y0", "set_YT", "inner_repr", "samples_per_s", "lr"} <= rows[0].keys()
    assert sum("val_hungarian" in r for r in rows) == 3
    assert len(list((run_folder / "pictures").glob("*.png"))) == 3
    SetPredictor.from_pretrained(run_folder / "best").predict([[[0.1, 0.2]] * 4])


@pytest.mark.parametrize("method", ["dspn", "idspn"])
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(tiny, run_folder, method):
    if method == "idspn":
        tiny.decoder = replace(preset("multisets", "idspn").decoder, steps=3)
    go(tiny, run_folder)
    part = run_folder.with_name("part")
    tiny.train.max_steps = 7
    tiny.train.schedule = "constant"
    go(tiny, part)
    tiny.train.max_steps = 12
    go(tiny, part, resume=True)
    assert same(content(run_folder), content(part))
    whole, resumed = (SetPredictor.from_pretrained(f / "best").state_dict() for f in (run_folder, part))
    assert same(dict(whole), dict(resumed))


def test_logs_beyond_the_checkpoint_are_dropped_on_resume(tmp_path):
    log = RunLog(tmp_path)
    for step in (1, 2, 3):
        log.write(step, {"loss": step / 3})
    log.write(3, {"val": 1.0})
    log.close()
    again = RunLog(tmp_path, resumed_at=2)
    again.write(3, {"loss": 9.0})
    again.close()
    assert [(r["step"], r["loss"]) for r in read_log(tmp_path / "log.csv")] == [
        ("1", "0.333333"),
        ("2", "0.666667"),
        ("3", "9"),
    ]


def test_existing_and_missing_runs_are_refused(tiny, run_folder):
    with pytest.raises(FileNotFoundError, match="no checkpoint to resume from"):
        go(tiny, run_folder, resume=True)
    go(tiny, run_folder)
    before = content(run_folder)
    with pytest.raises(FileExistsError, match="is a run already"):
        go(tiny, run_folder)
    assert same(before, content(run_folder))


def test_a_checkpoint_of_another_model_is_refused(tiny, run_folder):
    go(tiny, run_folder)
    before = (run_folder / "last.ckpt").read_bytes()
    tiny.latent = 9
    with pytest.raises(ConfigError, match="goes on with the same data and model, but latent is changed"):
        go(tiny, run_folder, resume=True)
    (run_folder / "config.json").write_text(json.dumps(to_dict(tiny)))
    with pytest.raises(ConfigError, match=r"is of another model: its .* is \(8.*, here it is \(9"):
        go(tiny, run_folder, resume=True)
    tiny.latent, tiny.train.ema = 8, 0.0
    (run_folder / "config.json").write_text(json.dumps(to_dict(tiny)))
    with pytest.raises(ConfigError, match="another setting of --ema"):
        go(tiny, run_folder, resume=True)
    assert (run_folder / "last.ckpt").read_bytes() == before


def test_a_broken_checkpoint_is_named(tiny, run_folder):
    go(tiny, run_folder)
    path = run_folder / "last.ckpt"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ConfigError, match=r"last.ckpt is not a readable checkpoint"):
        go(tiny, run_folder, resume=True)


def test_a_full_disk_keeps_the_checkpoint_before(tiny, run_folder, monkeypatch):
    go(tiny, run_folder)
    before = (run_folder / "last.ckpt").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("setpredict.training.checkpoint.torch.save", full)
    tiny.train.max_steps = 20
    with pytest.raises(OSError, match=r"cannot write the checkpoint .*No space left.*still the one before"):
        go(tiny, run_folder, resume=True)
    assert (run_folder / "last.ckpt").read_bytes() == before
    assert not list(run_folder.glob(".*.tmp"))


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


def poisoned(monkeypatch, once: bool):
    from setpredict.training import run

    def make(data):
        task = make_task(data)
        return replace(task, train=Poison(task.train, once))

    make_task = run.make_task
    monkeypatch.setattr(run, "make_task", make)


def test_a_broken_batch_stops_with_what_was_seen(tiny, run_folder, monkeypatch):
    poisoned(monkeypatch, once=False)
    with pytest.raises(Diverged, match=r"At step \d+, .*nan.*last good checkpoint is .*last.ckpt.*--on-divergence"):
        go(tiny, run_folder)
    assert all(v.isfinite().all() for v in content(run_folder)["model"].values())
    assert not (run_folder / "done.json").exists()


def test_rollback_goes_on_with_a_smaller_learning_rate(tiny, run_folder, monkeypatch):
    poisoned(monkeypatch, once=True)
    tiny.train.on_divergence = "rollback"
    go(tiny, run_folder)
    assert content(run_folder)["lr_scale"] == 0.5
    assert content(run_folder)["rollbacks"] == 1
    assert content(run_folder)["step"] == 12


def test_rollback_gives_up_on_a_batch_that_stays_broken(tiny, run_folder, monkeypatch):
    poisoned(monkeypatch, once=False)
    tiny.train.on_divergence = "rollback"
    with pytest.raises(Diverged, match="3 rollbacks did not help: look at the data of that step"):
        go(tiny, run_folder)


def test_a_run_without_its_checkpoint_is_not_begun_anew(tiny, run_folder):
    go(tiny, run_folder)
    (run_folder / "last.ckpt").unlink()
    before = {f: f.read_bytes() for f in run_folder.rglob("*") if f.is_file()}
    with pytest.raises(FileExistsError, match="is a run already, without its checkpoint"):
        go(tiny, run_folder)
    with pytest.raises(ConfigError, match="was trained with other settings"):
        finish(changed(tiny, {"train.max_steps": 13}), run_folder, QUIET)
    assert finish(tiny, run_folder, QUIET)
    assert before == {f: f.read_bytes() for f in run_folder.rglob("*") if f.is_file()}


def test_a_picture_that_cannot_be_drawn_costs_no_training(tiny, run_folder):
    def draw(*_):
        raise ValueError("no [ink]")

    tiny.train.pictures = True
    said = Console(record=True, file=io.StringIO(), width=200)
    train_run(tiny, run_folder, draw=draw, console=said)
    assert content(run_folder)["step"] == 12
    assert "No picture of step 5: no [ink]" in said.export_text()


def test_early_stopping(tiny, run_folder):
    tiny.train = replace(tiny.train, lr=0.0, ema=0.0, max_steps=100, val_every=2, patience=1)
    go(tiny, run_folder)
    assert content(run_folder)["step"] == 4  # best at 2, no better at 4


def test_a_start_that_failed_can_be_made_again(tiny, run_folder):
    tiny.train.batch_size = 0
    with pytest.raises(ConfigError, match="--batch-size must be at least 1, got 0"):
        go(tiny, run_folder)
    assert not run_folder.exists()
    run_folder.mkdir(parents=True)
    (run_folder / "config.json").write_text("{}")  # stopped before the first checkpoint
    tiny.train.batch_size = 8
    go(tiny, run_folder)
    assert (run_folder / "done.json").is_file()


def test_options_given_on_resuming_are_kept(tiny, run_folder):
    go(tiny, run_folder)
    tiny.train.max_steps = 14
    go(tiny, run_folder, resume=True)
    assert content(run_folder)["step"] == 14
    assert read_experiment(run_folder).train.max_steps == 14
    assert json.loads((run_folder / "origin.json").read_text()).keys() == {"revision", "hardware"}


def test_optimizer_options_given_on_resuming_are_used(tiny, run_folder):
    go(tiny, run_folder)
    tiny.train = replace(tiny.train, max_steps=14, optimizer="adamw", weight_decay=0.5)
    go(tiny, run_folder, resume=True)
    group = content(run_folder)["optimizer"]["param_groups"][0]
    assert (group["weight_decay"], group["decoupled_weight_decay"]) == (0.5, True)


@pytest.mark.parametrize("changed", [False, True])
def test_scores_by_another_loss_are_not_compared(tiny, run_folder, changed):
    go(tiny, run_folder)
    torch.save(content(run_folder) | {"best": (1e-9, 1e-9)}, run_folder / "last.ckpt")  # no score beats that
    tiny.train.max_steps = 15
    tiny.loss = replace(tiny.loss, cost="squared" if changed else "huber")
    go(tiny, run_folder, resume=True)
    chosen = json.loads((run_folder / "best" / "validation.json").read_text())["step"]
    assert (chosen == 15) == changed


def test_a_run_that_goes_on_has_weights_already(tiny, run_folder):
    go(tiny, run_folder)
    with pytest.raises(ConfigError, match="leave --init-from out"):
        go(tiny, run_folder, resume=True, init_from=run_folder)


def test_an_empty_split_is_named_before_anything_is_written(tiny, run_folder):
    tiny.data = replace(tiny.data, val=0)
    with pytest.raises(ValueError, match="val"):
        go(tiny, run_folder)
    assert not run_folder.exists()


def test_another_process_was_asked_to_stop(tiny, run_folder, monkeypatch):
    """All processes save and none says that the run is done, though nobody asked this one."""
    monkeypatch.setattr("setpredict.runs.train.any_rank", lambda fabric, flag: True)
    go(tiny, run_folder)
    assert content(run_folder)["step"] == 1
    assert not (run_folder / "done.json").exists()


@pytest.mark.parametrize(
    ("written", "message"), [("text", "is not a"), ({"step": 1}, "it has no seconds"), (3, "not a")]
)
def test_what_is_no_checkpoint_is_named(tiny, run_folder, written, message):
    go(tiny, run_folder)
    if isinstance(written, str):
        (run_folder / "last.ckpt").write_text(written)
    else:
        torch.save(written, run_folder / "last.ckpt")
    with pytest.raises(ConfigError, match=message):
        go(tiny, run_folder, resume=True)


@pytest.mark.parametrize(
    "change", [{"accumulate": 0}, {"seed": -1}, {"workers": -1}, {"lr": -1.0}, {"ema": 1.0}, {"decay_at": (5.0,)}]
)
def test_numbers_that_no_training_can_have(tiny, run_folder, change):
    tiny.train = replace(tiny.train, **change)
    with pytest.raises(ConfigError, match=f"--{next(iter(change)).replace('_', '-')} must be"):
        go(tiny, run_folder)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("accelerator", ["gpu", "tpu", "abacus"])
def test_an_accelerator_that_is_not_there(tiny, run_folder, accelerator):
    tiny.train.accelerator = accelerator
    with pytest.raises(ConfigError, match=f"--accelerator {accelerator} with --devices 1 is not possible here"):
        go(tiny, run_folder)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_run_from_a_gpu_is_evaluated_without_one(tiny, run_folder):
    go(tiny, run_folder)
    here = evaluate_run(run_folder)
    config = json.loads((run_folder / "config.json").read_text())
    config["train"] |= {"accelerator": "gpu", "devices": 4}
    (run_folder / "config.json").write_text(json.dumps(config))
    assert [r.metrics for r in evaluate_run(run_folder)] == [r.metrics for r in here]


def test_evaluation_of_a_run_writes_its_table(tiny, run_folder):
    go(tiny, run_folder)
    rows = evaluate_run(run_folder, [0, 2, 4])
    assert [r.steps for r in rows] == [0, 2, 4]
    assert all(r.samples == 20 for r in rows)
    saved = json.loads((run_folder / "evaluation-test.json").read_text())
    assert [s["metrics"] for s in saved] == [r.metrics for r in rows]


def test_a_warning_when_the_set_does_not_move(tiny, run_folder, capsys):
    tiny.decoder.step_size = 1e-9
    train_run(tiny, run_folder, console=Console(force_terminal=False, width=200))
    assert "hardly moves: raise step_size" in capsys.readouterr().out


def test_a_second_interrupt_stops_at_once():
    with StopRequest(QUIET) as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def launch(folder: Path, *words: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "setpredict", "train", *words, "--out", str(folder.parent), "--name", folder.name]
    small = ["--max-steps", "100000", "--save-every", "1", "--val-every", "100000", "--log-every", "1"]
    sizes = [
        "--latent",
        "8",
        "--encoder.hidden",
        "8",
        "--decoder.steps",
        "2",
        "--batch-size",
        "4",
        "--max-minutes",
        "5",
    ]
    return subprocess.Popen([*command, *small, *sizes], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_steps(folder: Path, process: subprocess.Popen, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if len(read_log(folder / "log.csv")) > 3:
            return
        assert process.poll() is None, process.stdout.read()  # pyright: ignore
        time.sleep(0.1)
    raise AssertionError("no steps were logged")


def test_sigterm_finishes_the_step_saves_and_says_how_to_go_on(run_folder):
    process = launch(run_folder, "multisets")
    wait_for_steps(run_folder, process)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    assert f"setpredict train --resume {run_folder}" in out.replace("\n", "")
    step = content(run_folder)["step"]
    assert step > 3
    experiment = read_experiment(run_folder)
    experiment.train.max_steps = step + 2
    go(experiment, run_folder, resume=True)
    assert content(run_folder)["step"] == step + 2


@pytest.mark.parametrize("delay", [0.013, *(pytest.param(d, marks=pytest.mark.slow) for d in (0.0, 0.037, 0.1))])
def test_kill_at_any_moment_leaves_a_checkpoint_that_loads(run_folder, delay):
    """A checkpoint is written at every step, so that most kills fall into a write."""
    process = launch(run_folder, "multisets")
    wait_for_steps(run_folder, process)
    time.sleep(delay)
    process.kill()
    process.communicate(timeout=60)
    experiment = read_experiment(run_folder)
    experiment.train.max_steps = content(run_folder)["step"] + 1
    go(experiment, run_folder, resume=True)
    assert content(run_folder)["step"] == experiment.train.max_steps
