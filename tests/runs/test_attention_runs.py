"""Runs of slot attention and transformers: resuming, evaluation at several steps, figures, initial weights."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from setpredict import UserError
from setpredict.cli.main import run
from setpredict.config import (
    DataConfig,
    DecoderConfig,
    Experiment,
    GradientDescent,
    InputConfig,
    LossConfig,
    TrainConfig,
)
from setpredict.runs.evaluate import evaluate_run
from setpredict.runs.loaded import load
from setpredict.runs.train import train_run
from tests.training.comparing import differences

DECODERS = {
    "slots": DecoderConfig("slots", GradientDescent(steps=2), width=8, hidden=(8,)),
    "transformer": DecoderConfig(
        "transformer", GradientDescent(steps=2), width=8, heads=2, hidden=(8,), queries="random"
    ),
}


def experiment(method: str, images: bool = False) -> Experiment:
    data = DataConfig("multisets", points=4, variable=True, train=16, val=4, test=6)
    if images:
        data = DataConfig("scenes", size=32, min_objects=1, max_objects=3, train=16, val=4, test=4)
    return Experiment(
        data,
        latent=8,
        input=InputConfig("conv", widths=(8, 8, 8)),
        decoder=DECODERS[method],
        loss=LossConfig(steps="last" if method == "slots" else "all"),
        train=TrainConfig(max_steps=6, batch_size=4, val_every=2, save_every=1, log_every=1, threads=1, pictures=False),
    )


def go(given: Experiment, folder: Path, **options) -> None:
    train_run(given, folder, console=Console(quiet=True), **options)


@pytest.mark.parametrize("images", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["sets", "images"])
@pytest.mark.parametrize("method", DECODERS)
def test_a_resumed_run_is_the_same_to_the_bit(method, images, tmp_path):
    given = experiment(method, images)
    given.train.ema = 0.9
    go(given, tmp_path / "whole")
    given.train.max_steps = 3
    go(given, tmp_path / "part")
    given.train.max_steps = 6
    go(given, tmp_path / "part", resume=True)
    whole, part = (dict(load(tmp_path / name).model.state_dict()) for name in ("whole", "part"))
    assert differences(whole, part) == []


def test_evaluation_at_several_steps(tmp_path):
    for method in DECODERS:
        go(experiment(method), tmp_path / method)
    rows = evaluate_run(tmp_path / "slots", (0, 2, 5))
    assert [row.steps for row in rows] == [0, 2, 5]
    assert len({row.metrics["hungarian"] for row in rows}) == 3, "the steps have no effect"
    assert [row.steps for row in evaluate_run(tmp_path / "transformer", (None, 1))] == [2, 1]
    with pytest.raises(UserError, match="this transformer has 2 layers and cannot take 3 steps"):
        evaluate_run(tmp_path / "transformer", (3,))
    assert run(["report", *(str(tmp_path / method) for method in DECODERS)]) == 0
    page = (tmp_path / "comparison.html").read_text(encoding="utf-8")
    assert "Slot Attention" in page
    assert "Samples side by side" in page
    assert run(["plot", str(tmp_path / "transformer"), "--samples", "0"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("method", DECODERS)
def test_attention_starts_from_the_image_encoder_of_a_dense_run(method, tmp_path):
    dense = experiment("slots", images=True)
    dense.decoder, dense.loss = DecoderConfig("dense"), LossConfig(dense=1.0)
    go(dense, tmp_path / "dense")
    for name, warmup in (("plain", 0), ("with a head", 1)):
        given = experiment(method, images=True)
        given.train.max_steps, given.input = 0, replace(given.input, warmup=warmup)
        go(given, tmp_path / name, init_from=tmp_path / "dense")
        theirs, ours = (load(tmp_path / which).model.state_dict() for which in ("dense", name))
        taken = [n for n in ours if n.startswith("input_encoder.") and ".positions." not in n]
        assert any(".backbone." in n for n in taken)
        assert any(".head." in n for n in taken) == bool(warmup)
        assert differences({n: theirs[n] for n in taken}, {n: ours[n] for n in taken}) == []


def test_a_transformer_cannot_train_with_fewer_layers(tmp_path):
    given = experiment("transformer")
    given.train.few_steps_until = 0.5
    with pytest.raises(UserError, match="trains all of its 2 layers, not 1"):
        go(given, tmp_path / "run")


def test_predictions_do_not_depend_on_the_batch(tmp_path):
    for method in DECODERS:
        go(experiment(method), tmp_path / method)
        model = load(tmp_path / method).model
        sets = [[[0.1, 0.2]], [], [[0.3, 0.4], [0.5, 0.6], [0.1, 0.9]]]
        together = model.predict(sets)
        for i, one in enumerate(sets):
            torch.testing.assert_close(model.predict([one]).elements[0], together.elements[i])


@pytest.mark.parametrize("method", DECODERS)
@pytest.mark.filterwarnings("ignore:.*bfloat16.*")
def test_every_weight_is_trained_in_mixed_precision(method, tmp_path):
    """Weights that are used without gradients first must not be kept so for the rest of the step."""
    weights = {}
    for name, changes in {"mixed": {"precision": "bf16-mixed"}, "exact": {}, "still": {"lr": 1e-30}}.items():
        chosen = experiment(method, images=True)
        chosen.train = replace(chosen.train, accelerator="cpu", max_steps=2, **changes)
        train_run(chosen, tmp_path / name, console=Console(quiet=True))
        weights[name] = load(tmp_path / name).model.state_dict()
    still = weights.pop("still")
    mixed, exact = ({k for k in still if not torch.equal(still[k], w[k])} for w in weights.values())
    assert any(k.startswith("decoder.") for k in exact)
    assert mixed == exact
