"""Runs: what they leave behind, resuming to the bit, and mistakes that change nothing."""

import io
import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from lightning_fabric import Fabric
from rich.console import Console

from setpredict.cli.main import run as command
from setpredict.config import to_json
from setpredict.core.errors import UserError
from setpredict.model import SetPredictor
from setpredict.presets import preset
from setpredict.reproduce import finish
from setpredict.runs import training_run
from setpredict.runs.evaluate import evaluate_run
from setpredict.runs.folder import RunFolder
from setpredict.runs.loaded import load
from setpredict.runs.restore import seed_process
from setpredict.runs.train import train_run
from setpredict.studies import changed
from tests.training.comparing import differences

QUIET = Console(quiet=True)


def go(experiment, folder: Path, **options):
    return train_run(experiment, folder, console=QUIET, **options)


def content(folder: Path) -> dict:
    return torch.load(RunFolder(folder).checkpoint_path, weights_only=True)


def files(folder: Path) -> dict[Path, bytes]:
    return {f: f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.mark.parametrize("patience", [None, 1])
def test_every_checkpoint_is_written_once(tiny, run_folder, monkeypatch, patience):
    saved, save = [], training_run.save_checkpoint
    monkeypatch.setattr(training_run, "save_checkpoint", lambda *given: saved.append(given[1].step) or save(*given))
    tiny.train.patience = patience
    tiny.train.lr = 0.0 if patience else tiny.train.lr  # nothing gets better
    go(tiny, run_folder)
    assert saved == ([0, 3, 5, 6, 9, 10] if patience else [0, 3, 5, 6, 9, 10, 12])


def test_other_processes_draw_other_numbers():
    drawn = []
    for rank in (0, 1, 2):
        torch.manual_seed(7)
        fabric = Mock(Fabric, global_rank=rank)
        seed_process(fabric, seed=0, step=5)
        drawn.append(torch.rand(1).item())
    assert len(set(drawn)) == 3
    torch.manual_seed(7)
    assert drawn[0] == torch.rand(1).item()  # the first process goes on with its own


def test_a_run_leaves_everything_behind(tiny, run_folder):
    def draw(task, batch, prediction, path):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{len(batch)} {task.name} {prediction.steps}")

    tiny.train.pictures = True
    seen, run = go(tiny, run_folder, draw=draw), RunFolder(run_folder)
    assert seen is not None
    assert seen.metrics["hungarian"] > 0
    assert {p.name for p in run_folder.iterdir()} == {
        "config.json", "task.json", "origin.json", "last.ckpt", "previous.ckpt", "best", "log.csv", "tensorboard",
        "pictures", "done.json",
    }  # fmt: skip
    assert run.read_experiment() == tiny
    assert json.loads(run.config_path.read_text())["version"] == 2
    rows = run.read_log()
    assert [int(r["step"]) for r in rows] == [2, 4, 5, 6, 8, 10, 10, 12, 12]
    assert rows[0].keys() == {
        "step", "loss", "set_Y0", "set_YT", "inner_repr", "inner_grad", "samples_per_s", "lr", "minutes"
    }  # fmt: skip
    assert sum("val_hungarian" in r for r in rows) == 3
    pictures = [run.picture_path(step).read_text() for step in (5, 10, 12)]
    assert pictures == ["6 multisets 2"] * 3
    assert run.read_summary() == {
        "step": 12, "seconds": content(run_folder)["seconds"], "best": list(seen.score),
        "ended_by": f"--max-steps 12 (after {12 / 8:.1f} of --epochs 100)",
    }  # fmt: skip
    SetPredictor.from_pretrained(run.best_path).predict([[[0.1, 0.2]] * 4])


def test_a_one_shot_decoder_has_no_inner_loop_in_its_log(tiny, run_folder):
    tiny.decoder = replace(tiny.decoder, kind="mlp")
    go(tiny, run_folder)
    rows = RunFolder(run_folder).read_log()
    assert rows[0].keys() == {"step", "loss", "set_YT", "samples_per_s", "lr", "minutes"}


@pytest.mark.parametrize("method", ["dspn", "idspn"])
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(tiny, run_folder, method):
    if method == "idspn":
        tiny.decoder = preset("multisets", "idspn").decoder
        tiny.decoder.solver = replace(tiny.decoder.solver, steps=3)
    go(tiny, run_folder)
    part = run_folder.with_name("part")
    tiny.train.max_steps = 7
    go(tiny, part)
    tiny.train.max_steps = 12
    go(tiny, part, resume=True)
    assert differences(content(run_folder), content(part), ignore=("seconds",)) == []
    uninterrupted, resumed = (dict(load(f).model.state_dict()) for f in (run_folder, part))
    assert differences(uninterrupted, resumed) == []


def test_a_run_killed_between_its_last_checkpoint_and_its_summary_ends_the_same(tiny, run_folder):
    """The validation of the last step is not repeated."""
    go(tiny, run_folder)
    run, before = RunFolder(run_folder), content(run_folder)
    rows, summary = run.read_log(), run.read_summary()
    run.summary_path.unlink()
    go(tiny, run_folder, resume=True)
    assert differences(content(run_folder), before) == []
    assert (run.read_log(), run.read_summary()) == (rows, summary)


def test_existing_and_missing_runs_raise(tiny, run_folder):
    with pytest.raises(UserError, match=r"tiny cannot be resumed: last.ckpt not found"):
        go(tiny, run_folder, resume=True)
    assert not run_folder.exists()
    go(tiny, run_folder)
    before = files(run_folder)
    with pytest.raises(UserError, match=r"tiny is already a run\. Continue it with --resume"):
        go(tiny, run_folder)
    assert before == files(run_folder)


def test_a_checkpoint_of_another_model_raises(tiny, run_folder):
    go(tiny, run_folder)
    config, before = RunFolder(run_folder).config_path, content(run_folder)
    tiny.latent = 9
    with pytest.raises(UserError, match="continues with the same data and model, but latent was changed"):
        go(tiny, run_folder, resume=True)
    config.write_text(json.dumps(to_json(tiny)))
    with pytest.raises(UserError, match=r"last.ckpt does not fit the model: of another shape: .* is \(8.*, not \(9"):
        go(tiny, run_folder, resume=True)
    tiny.latent, tiny.train.ema = 8, 0.0
    config.write_text(json.dumps(to_json(tiny)))
    with pytest.raises(UserError, match="another setting of --ema"):
        go(tiny, run_folder, resume=True)
    assert differences(content(run_folder), before) == []


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), RuntimeError("No space left in the writer\nframe 1")]
)
def test_a_full_disk_keeps_the_previous_checkpoint(tiny, run_folder, monkeypatch, error):
    go(tiny, run_folder)
    before = RunFolder(run_folder).checkpoint_path.read_bytes()

    def full(*_):
        raise error

    monkeypatch.setattr("setpredict.training.checkpoint.torch.save", full)
    tiny.train.max_steps = 20
    with pytest.raises(UserError, match=r"cannot write the checkpoint .*No space left.*; .* is still the previous one"):
        go(tiny, run_folder, resume=True)
    assert RunFolder(run_folder).checkpoint_path.read_bytes() == before
    assert not list(run_folder.glob(".*.tmp"))


def test_a_run_without_its_checkpoint_is_not_started_again(tiny, run_folder):
    go(tiny, run_folder)
    RunFolder(run_folder).checkpoint_path.unlink()
    RunFolder(run_folder).previous_checkpoint_path.unlink()
    before = files(run_folder)
    with pytest.raises(UserError, match="is already a run, without its checkpoint"):
        go(tiny, run_folder)
    with pytest.raises(UserError, match="was trained with other settings"):
        finish(changed(tiny, {"train.max_steps": 13}), RunFolder(run_folder), QUIET)
    assert finish(tiny, RunFolder(run_folder), QUIET)
    assert before == files(run_folder)


def test_a_failed_picture_does_not_stop_the_training(tiny, run_folder):
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


def test_a_failed_start_can_be_repeated(tiny, run_folder):
    tiny.train.batch_size = 0
    with pytest.raises(UserError, match="--batch-size must be at least 1, got 0"):
        go(tiny, run_folder)
    assert not run_folder.exists()
    run_folder.mkdir(parents=True)
    RunFolder(run_folder).config_path.write_text("{}")  # stopped before the first checkpoint
    tiny.train.batch_size = 8
    go(tiny, run_folder)
    assert RunFolder(run_folder).is_finished


def test_options_given_on_resuming_are_kept(tiny, run_folder):
    go(tiny, run_folder)
    origin = RunFolder(run_folder).read_origin()
    tiny.train.max_steps = 14
    go(tiny, run_folder, resume=True)
    assert content(run_folder)["step"] == 14
    assert RunFolder(run_folder).read_experiment().train.max_steps == 14
    assert RunFolder(run_folder).read_origin() == origin


def test_optimizer_options_given_on_resuming_are_used(tiny, run_folder):
    go(tiny, run_folder)
    tiny.train = replace(tiny.train, max_steps=14, optimizer="adamw", weight_decay=0.5)
    go(tiny, run_folder, resume=True)
    group = content(run_folder)["optimizer"]["param_groups"][0]
    assert (group["weight_decay"], group["decoupled_weight_decay"]) == (0.5, True)


@pytest.mark.parametrize("other", [False, True])
def test_scores_by_another_loss_are_not_compared(tiny, run_folder, other):
    go(tiny, run_folder)
    run = RunFolder(run_folder)
    torch.save(content(run_folder) | {"best": (1e-9, 1e-9)}, run.checkpoint_path)  # no score beats that
    tiny.train.max_steps = 15
    tiny.loss = replace(tiny.loss, cost="squared" if other else "huber")
    go(tiny, run_folder, resume=True)
    chosen = run.read_validation()
    assert chosen is not None
    assert (chosen["step"] == 15) == other


def test_a_resumed_run_takes_no_initial_weights(tiny, run_folder):
    go(tiny, run_folder)
    with pytest.raises(UserError, match="remove --init-from"):
        go(tiny, run_folder, resume=True, init_from=run_folder)


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_an_empty_split_is_named_before_anything_is_written(tiny, run_folder, split):
    tiny.data = replace(tiny.data, **{split: 0})
    with pytest.raises(UserError, match=f"the {split} split of multisets is empty"):
        go(tiny, run_folder)
    assert not run_folder.exists()


@pytest.mark.parametrize(
    "change", [{"accumulate": 0}, {"seed": -1}, {"workers": -1}, {"lr": -1.0}, {"ema": 1.0}, {"decay_at": (5.0,)}]
)
def test_impossible_training_options_raise(tiny, run_folder, change):
    tiny.train = replace(tiny.train, **change)
    with pytest.raises(UserError, match=f"--{next(iter(change)).replace('_', '-')} must be"):
        go(tiny, run_folder)
    assert not run_folder.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("accelerator", ["gpu", "tpu", "abacus"])
def test_a_missing_accelerator_is_named(tiny, run_folder, accelerator):
    tiny.train.accelerator = accelerator
    with pytest.raises(UserError, match=f"--accelerator {accelerator} with --devices 1 is not possible here"):
        go(tiny, run_folder)


def test_a_warning_when_the_set_does_not_move(tiny, run_folder, capsys):
    tiny.decoder.solver = replace(tiny.decoder.solver, step_size=1e-9)
    train_run(tiny, run_folder, console=Console(force_terminal=False, width=200))
    assert "hardly moves: raise step_size" in capsys.readouterr().out


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_run_from_a_gpu_is_evaluated_without_one(tiny, run_folder):
    go(tiny, run_folder)
    before = evaluate_run(run_folder)
    run = RunFolder(run_folder)
    experiment = run.read_experiment()
    experiment.train = replace(experiment.train, accelerator="gpu", devices=4)
    run.write_experiment(experiment)
    assert [r.metrics for r in evaluate_run(run_folder)] == [r.metrics for r in before]


@pytest.mark.parametrize(("field", "value"), [("devices", 10**6), ("threads", 10**6), ("workers", 10**6)])
def test_a_run_cannot_make_its_evaluation_start_a_million_processes(tiny, run_folder, field, value):
    go(tiny, run_folder)
    run = RunFolder(run_folder)
    run.write_experiment(replace(tiny, train=replace(tiny.train, **{field: value})))
    with pytest.raises(UserError, match=f"--{field} must be at most 1024, got 1000000"):
        evaluate_run(run_folder)


def test_a_run_of_a_larger_machine_is_evaluated_on_the_cores_that_there_are(tiny, run_folder, monkeypatch):
    go(tiny, run_folder)
    RunFolder(run_folder).write_experiment(replace(tiny, train=replace(tiny.train, devices=1000)))
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert [r.samples for r in evaluate_run(run_folder)] == [20]


def test_evaluation_of_a_run_writes_its_rows(tiny, run_folder):
    go(tiny, run_folder)
    rows = evaluate_run(run_folder, [0, 2, 4])
    assert [r.steps for r in rows] == [0, 2, 4]
    assert all(r.samples == 20 for r in rows)
    saved = RunFolder(run_folder).read_evaluation("test")
    assert saved is not None
    assert [(s["steps"], s["samples"], s["metrics"]) for s in saved] == [(r.steps, 20, r.metrics) for r in rows]


def test_evaluation_on_other_data_writes_nothing(tiny, run_folder):
    go(tiny, run_folder)
    before = files(run_folder)
    (row,) = evaluate_run(run_folder, data=replace(tiny.data, test=7))
    assert row.samples == 7
    assert files(run_folder) == before


def test_data_that_have_changed_are_not_resumed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(largest: float, count: int = 20) -> None:
        rows = [{"input": [i % 20, largest], "set": [[i % 20 / 20, 0.5]]} for i in range(count)]
        Path("train.jsonl").write_text("\n".join(map(json.dumps, rows)))

    write(1.0)
    words = ["train", "folder", "--data.folder", ".", "--method", "mlp", "--max-steps", "1", "--name", "one"]
    assert command([*words, "--decoder.hidden", "8", "--batch-size", "4", "--threads", "1"]) == 0
    write(7.0)
    with pytest.raises(UserError, match=r"data of runs/one have changed: input_offset was .* Start a new run"):
        train_run(RunFolder("runs/one").read_experiment(), "runs/one", resume=True)
    with pytest.raises(UserError, match=r"have changed since its training: input_offset was .*on the new data: --data"):
        evaluate_run("runs/one")
    write(1.0, count=23)  # another division into train and val: samples that were trained on would be measured
    with pytest.raises(UserError, match="a random division of 23 samples, where there were 20, so val has samples"):
        train_run(RunFolder("runs/one").read_experiment(), "runs/one", resume=True)
    with pytest.raises(UserError, match="a random division of 23 samples"):
        evaluate_run("runs/one")
    (row,) = evaluate_run("runs/one", data=tmp_path)
    assert row.samples == 23
    Path("val.jsonl").write_text(Path("train.jsonl").read_text())  # has samples of its own now
    assert evaluate_run("runs/one")[0].samples == 23
