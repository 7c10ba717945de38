"""Runs on images: warm-up, the dense head alone and as initial set, and initial weights from it."""

import time
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from setpredict import UserError
from setpredict.config import (
    DataConfig,
    DecoderConfig,
    EncoderConfig,
    Experiment,
    GradientDescent,
    InputConfig,
    LossConfig,
    TrainConfig,
)
from setpredict.encoders import ResNetEncoder
from setpredict.runs import training_run
from setpredict.runs.evaluate import evaluate_run
from setpredict.runs.folder import RunFolder
from setpredict.runs.loaded import load
from setpredict.runs.train import train_run
from setpredict.training import loop
from setpredict.training.evaluation import evaluate
from tests.training.comparing import differences


@pytest.fixture
def images() -> Experiment:
    """Small scenes; 8 steps, the first 4 of them with the dense head alone."""
    return Experiment(
        DataConfig("scenes", size=32, min_objects=1, max_objects=3, train=16, val=4, test=4),
        latent=8,
        input=InputConfig("conv", widths=(4, 4, 6), warmup=4),
        encoder=EncoderConfig(hidden=(8,)),
        decoder=DecoderConfig(solver=GradientDescent(steps=2), initial="dense", step_scale="learned"),
        loss=LossConfig(dense=0.1),
        train=TrainConfig(max_steps=8, batch_size=4, val_every=2, save_every=1, log_every=1, threads=1, pictures=False),
    )


def go(experiment: Experiment, folder, **options) -> None:
    train_run(experiment, folder, console=Console(quiet=True), **options)


@pytest.mark.parametrize("stopped_at", [2, 6])
def test_a_run_resumed_in_or_after_its_warm_up_is_the_same_to_the_bit(images, tmp_path, stopped_at):
    go(images, tmp_path / "whole")
    images.train.max_steps = stopped_at
    go(images, tmp_path / "part")
    images.train.max_steps = 8
    go(images, tmp_path / "part", resume=True)
    whole, part = (dict(load(tmp_path / name).model.state_dict()) for name in ("whole", "part"))
    assert differences(whole, part) == []


def test_the_warm_up_trains_the_encoder_and_leaves_the_decoder_alone(images, tmp_path):
    images.train.max_steps = 1
    go(images, tmp_path / "one")
    images.train.max_steps = 4
    go(images, tmp_path / "four")
    one, four = (load(tmp_path / name).model.state_dict() for name in ("one", "four"))
    changed = {name for name in one if not torch.equal(one[name], four[name])}
    assert changed
    assert all(name.startswith("input_encoder.") for name in changed), changed
    rows = RunFolder(tmp_path / "four").read_log()
    assert {"dense", "loss"} <= rows[0].keys()
    assert rows[0]["dense"] == rows[0]["loss"]


def test_the_first_step_after_a_warm_up_is_as_small_as_the_first_of_any_training(images, tmp_path):
    """Adam's first step moves every weight by the learning rate; with 4 steps of zero gradients before, it does not."""
    images.train = replace(images.train, lr=0.01, warmup_steps=10)
    weights = []
    for steps in (4, 5):
        images.train.max_steps = steps
        go(images, tmp_path / str(steps))
        content = torch.load(RunFolder(tmp_path / str(steps)).checkpoint_path, weights_only=True)
        weights.append({n: w for n, w in content["model"].items() if n.startswith("decoder.")})
    before, after = weights
    moved = max(float((after[n] - before[n]).abs().max()) for n in before)
    assert moved == pytest.approx(0.01 / 10, rel=1e-2)


def test_the_dense_head_alone_is_a_decoder(images, tmp_path):
    images.decoder, images.loss = DecoderConfig("dense"), LossConfig(dense=1.0)
    images.input = replace(images.input, warmup=0)
    go(images, tmp_path / "dense")
    (row,) = evaluate_run(tmp_path / "dense", (1, 2))
    assert row.steps is None
    assert {"AP∞", "hungarian", "size_accuracy"} <= row.metrics.keys()
    run = load(tmp_path / "dense")
    assert run.method == "Dense head"
    image = torch.rand(1, 3, 32, 32)
    predicted = run.model.predict(image)
    assert predicted.elements.shape == (1, 3, 18)
    kinds = predicted.elements[0, :, 3:5].sum(dim=-1)  # groups are probabilities
    torch.testing.assert_close(kinds, torch.ones(3))
    images.decoder = DecoderConfig("mlp", hidden=(8,))
    images.loss, images.train.max_steps = LossConfig(), 0
    go(images, tmp_path / "after", init_from=tmp_path / "dense")
    dense, after = run.model.state_dict(), load(tmp_path / "after").model.state_dict()
    taken = [name for name in after if name.startswith("input_encoder.backbone.")]
    assert taken
    assert differences({n: dense[n] for n in taken}, {n: after[n] for n in taken}) == []
    images.data, images.decoder = replace(images.data, target="box"), DecoderConfig(initial="dense")
    go(images, tmp_path / "boxes", init_from=tmp_path / "dense")  # with a head of their own
    boxes = load(tmp_path / "boxes").model.state_dict()
    assert differences({n: dense[n] for n in taken}, {n: boxes[n] for n in taken}) == []
    images.decoder = DecoderConfig(initial="random")
    go(images, tmp_path / "again", init_from=tmp_path / "boxes")  # from a DSPN that starts from proposals
    again = load(tmp_path / "again").model.state_dict()
    taken += [name for name in again if name.startswith("input_encoder.head.")]  # for the same kind of elements
    assert differences({n: boxes[n] for n in taken if n in boxes}, {n: again[n] for n in taken}) == []
    images.input = replace(images.input, widths=(4, 4, 8))
    with pytest.raises(UserError, match="does not fit the model: of another shape"):
        go(images, tmp_path / "other", init_from=tmp_path / "dense")


@pytest.mark.parametrize(
    ("change", "option"),
    [
        ({"input": InputConfig(warmup=5)}, "--input.warmup"),
        ({"loss": LossConfig(dense=0.5)}, "--loss.dense"),
        ({"decoder": DecoderConfig(initial="dense")}, "--decoder.initial dense"),
        ({"decoder": DecoderConfig("dense")}, "--method dense"),
    ],
)
def test_data_without_centers_say_so(tiny, run_folder, change, option):
    with pytest.raises(UserError, match=f"{option} needs a dense head, and multisets does not say where in an image"):
        go(replace(tiny, **change), run_folder)
    assert not run_folder.exists()


def test_a_warm_up_can_be_a_fraction_of_the_training(images, tmp_path):
    """Half of 8 steps is 4 steps."""
    images.train.schedule = "constant"
    go(images, tmp_path / "steps")
    images.input = replace(images.input, warmup=0.5)
    go(images, tmp_path / "fraction")
    steps, fraction = (dict(load(tmp_path / name).model.state_dict()) for name in ("steps", "fraction"))
    assert differences(steps, fraction) == []


def test_a_higher_limit_does_not_bring_the_warm_up_back(images, tmp_path, monkeypatch):
    """Half of 8 steps is 4 steps; half of 32 would be 16, but the run has had its warm-up."""
    images.input = replace(images.input, warmup=0.5)
    seen, begin = [], loop.begin_phase
    monkeypatch.setattr(loop, "begin_phase", lambda state, warming: (seen.append(warming), begin(state, warming)))
    go(images, tmp_path / "run")
    assert seen == [True] * 4 + [False] * 4
    images.train.max_steps = 32
    go(images, tmp_path / "run", resume=True)
    assert seen[8:] == [False] * 24


def test_a_run_from_weights_of_a_file_needs_the_file_only_at_its_start(images, tmp_path):
    images.data.size = 64
    images.input = InputConfig("resnet", depth=10, width=8, tail="idspn", freeze="stem", weights_rate=0.5)
    with pytest.raises(UserError, match=r"--input.freeze keeps weights from a file: add --input.weights"):
        go(images, tmp_path / "run")
    file = tmp_path / "imagenet.pth"
    torch.manual_seed(1)
    torch.save({f"module.{n}": w for n, w in ResNetEncoder(8, 64, 10, 8, "idspn").state_dict().items()}, file)
    images.input = replace(images.input, weights=str(file))
    images.train.max_steps = 2
    go(images, tmp_path / "run")
    file.unlink()
    images.train.max_steps = 4
    go(images, tmp_path / "run", resume=True)
    run = load(tmp_path / "run")
    assert run.model.config
    assert run.model.config.input.pretrained
    torch.manual_seed(1)
    given = ResNetEncoder(8, 64, 10, 8, "idspn").state_dict()
    found = run.model.get_submodule("input_encoder.backbone").state_dict()
    assert torch.equal(found["conv1.weight"], given["conv1.weight"])  # frozen
    assert not torch.equal(found["layer1.0.conv1.weight"], given["layer1.0.conv1.weight"])
    assert torch.equal(found["layer1.0.bn1.running_mean"], given["layer1.0.bn1.running_mean"])
    images.input = replace(images.input, kind="conv", freeze="none")
    with pytest.raises(UserError, match=r"--input.weights are of a ResNet: add --input.kind resnet"):
        go(images, tmp_path / "conv")


def test_validation_takes_a_tenth_of_the_time_at_most(images, tmp_path, monkeypatch):
    """An epoch has 4 steps; a validation that takes as long as many of them comes seldom."""

    def slowly(*args, **options):
        time.sleep(0.5)
        return evaluate(*args, **options)

    monkeypatch.setattr(training_run, "evaluate", slowly)
    images.train = replace(images.train, val_every=None, max_steps=40)
    go(images, tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    count = sum("val_AP∞" in row for row in run.read_log())
    summary = run.read_summary()
    assert summary
    assert 2 <= count <= 2 + summary["seconds"] / 4.5


def test_patience_does_not_count_validations_of_the_warm_up(images, tmp_path, monkeypatch):
    worse = iter(range(100))
    real = training_run.evaluate

    def evaluate_worse(*args, **given):
        return replace(real(*args, **given), score=(float(next(worse)), 0.0))

    monkeypatch.setattr(training_run, "evaluate", evaluate_worse)
    images.input = replace(images.input, warmup=5)
    images.train = replace(images.train, val_every=1, patience=2, max_steps=20)
    go(images, tmp_path / "run")
    summary = RunFolder(tmp_path / "run").read_summary()
    assert summary is not None
    assert summary["step"] == 7  # two validations after the warm-up
