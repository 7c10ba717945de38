"""Validation measures what training minimizes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric

from setpredict.build import make_loss, make_metrics, make_task
from setpredict.config import DataConfig, DecoderConfig, GradientDescent, InputConfig, LossConfig, ModelConfig
from setpredict.core.errors import NotFinite, UserError
from setpredict.decoders import DSPN
from setpredict.model import SetPredictor
from setpredict.sets import Sets
from setpredict.training.evaluation import evaluate, evaluate_steps


@pytest.fixture
def animals(tmp_path: Path):
    """Elements with two numbers and one of two categories."""
    lines = [{"input": [i], "set": [[i, j, "cat" if j % 2 else "dog"] for j in range(1 + i % 3)]} for i in range(6)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "val.jsonl").write_text(json.dumps(lines[2]))
    return make_task(DataConfig("folder", str(tmp_path)))


def points_model(**decoder) -> SetPredictor:
    torch.manual_seed(0)
    config = ModelConfig(4, 2, latent=8, input=InputConfig("set", 2), decoder=DecoderConfig(**decoder))
    return SetPredictor.from_config(config)


@pytest.mark.parametrize(
    "config",
    [
        LossConfig("hungarian", cross_entropy=True),
        LossConfig("chamfer", cross_entropy=True),
        LossConfig("hungarian", masks="filter", mask_weight=7.0),
    ],
    ids=lambda config: f"{config.set}-{config.masks}",
)
def test_the_distance_is_the_loss(animals, config):
    target = animals.train.batch(np.arange(6), 0).target
    torch.manual_seed(0)
    predicted = Sets(torch.rand(6, animals.max_size, animals.features), torch.rand(6, animals.max_size))
    loss = make_loss(config, animals)
    metric = make_metrics(animals, loss)[loss.name]
    metric.update(predicted, target, torch.arange(6))
    assert float(metric.compute()) == pytest.approx(float(loss.set_loss(predicted, target).mean()))


def test_negative_weights_raise(animals):
    with pytest.raises(UserError, match=r"loss.repr_weight must be 0 or more, got -1"):
        make_loss(LossConfig(repr_weight=-1.0), animals)


def test_cross_entropy_needs_categories():
    with pytest.raises(UserError, match=r"loss.cross_entropy .*multisets"):
        make_loss(LossConfig(cross_entropy=True), make_task(DataConfig("multisets", train=8, val=8, test=8)))


def test_a_problem_of_one_process_is_raised_in_all(monkeypatch):
    task = make_task(DataConfig("multisets", points=4, test=4))
    model, loss = points_model(), make_loss(LossConfig("hungarian"), task)
    fabric = Fabric(accelerator="cpu", devices=1)
    asked = []
    monkeypatch.setattr("setpredict.training.devices.any_rank", lambda fabric, flag: asked.append(flag) or True)
    with pytest.raises(NotFinite, match="another process met a value that is not finite"):
        evaluate(fabric, model, task, loss)
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    with pytest.raises(NotFinite, match="the vector to decode of sample 0 is nan"):
        evaluate(fabric, model, task, loss)
    assert asked == [False, True]


def test_steps_are_those_used_and_none_for_one_shot_decoders():
    task = make_task(DataConfig("multisets", points=4, test=4))
    fabric, loss = Fabric(accelerator="cpu", devices=1), make_loss(LossConfig("hungarian"), task)
    iterative, one_shot = points_model(solver=GradientDescent(steps=3)), points_model(kind="mlp")
    assert evaluate(fabric, iterative, task, loss).steps == 3
    assert evaluate(fabric, iterative, task, loss, steps=0).steps == 0
    assert evaluate(fabric, one_shot, task, loss, steps=7).steps is None


def test_steps_taken_are_measured_where_samples_may_stop_early():
    task = make_task(DataConfig("multisets", points=4, test=6))
    fabric, loss = Fabric(accelerator="cpu", devices=1), make_loss(LossConfig("hungarian"), task)
    solver = GradientDescent(steps=3)
    always, never = (points_model(solver=replace(solver, stop_below=b)) for b in (1e9, 1e-30))
    assert "steps_taken" not in evaluate(fabric, points_model(solver=solver), task, loss).metrics
    assert evaluate(fabric, never, task, loss, batch_size=4).metrics["steps_taken"] == 3
    assert evaluate(fabric, always, task, loss, batch_size=4).metrics["steps_taken"] < 3


SLOTS = {"kind": "slots", "width": 8, "hidden": (8,)}


@pytest.mark.parametrize(
    ("options", "stops"), [({}, False), ({}, True), (SLOTS, False)], ids=["dspn", "stops", "slots"]
)
def test_several_numbers_of_steps_are_decoded_once_with_the_scores_of_each_alone(monkeypatch, options, stops):
    task = make_task(DataConfig("multisets", points=4, test=6))
    fabric, loss = Fabric(accelerator="cpu", devices=1), make_loss(LossConfig("hungarian"), task)
    model = points_model(solver=GradientDescent(steps=3), **options)
    if stops:  # some samples after two steps or earlier
        losses = model(task.split("test").batch(np.arange(6), 0).input).repr_loss[2]
        assert isinstance(model.decoder, DSPN)
        model.decoder.solver = replace(model.decoder.solver, stop_below=float(losses.median()) * 1.001)
    steps = [2, 5, None, 0]
    alone = [evaluate(fabric, model, task, loss, steps=s, batch_size=4, details=True) for s in steps]
    decoded, advanced = [], []
    decode = model.decode
    monkeypatch.setattr(model, "decode", lambda code, steps: decoded.append(steps) or decode(code, steps=steps))
    rows = evaluate_steps(fabric, model, task, loss, "test", steps, 4, details=True, advance=advanced.append)
    assert decoded == [5, 5]  # two batches
    assert sum(advanced) == 6 * len(steps)
    assert [row.steps for row in rows] == [2, 5, 3, 0]
    assert len({row.metrics[loss.name] for row in rows}) > 1
    for row, one in zip(rows, alone):
        assert row.metrics == one.metrics, f"{row.steps} steps"  # to the bit
        assert row.score == one.score
        assert ("steps_taken" in row.metrics) == stops
        assert str(row.elements) == str(one.elements)  # NaN where nothing was matched
    times = {row.steps: row.milliseconds for row in rows}
    assert 0 < times[0] < times[2] < times[3] < times[5]


def test_decoders_that_are_not_built_in_decode_once_for_each_number_of_steps(monkeypatch):
    task = make_task(DataConfig("multisets", points=4, test=4))
    fabric, loss = Fabric(accelerator="cpu", devices=1), make_loss(LossConfig("hungarian"), task)
    model = points_model()
    model.config = None
    decoded = []
    decode = model.decode
    monkeypatch.setattr(model, "decode", lambda code, steps: decoded.append(steps) or decode(code, steps=steps))
    rows = evaluate_steps(fabric, model, task, loss, "test", [2, 5])
    assert decoded == [2, 5]
    assert [row.steps for row in rows] == [2, 5]
