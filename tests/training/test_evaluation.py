"""Validation measures what training minimizes."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric

from setpredict.config import ConfigError, InputConfig, LossConfig, ModelConfig
from setpredict.model import SetPredictor
from setpredict.presets import DataConfig, make_task
from setpredict.sets import NotFinite, Sets
from setpredict.training.evaluation import evaluate, make_meters
from setpredict.training.set_loss import make_set_loss


@pytest.fixture
def animals(tmp_path: Path):
    """Elements with two numbers and one of two categories."""
    lines = [{"input": [i], "set": [[i, j, "cat" if j % 2 else "dog"] for j in range(1 + i % 3)]} for i in range(6)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "val.jsonl").write_text(json.dumps(lines[2]))
    return make_task(DataConfig("folder", str(tmp_path)))


@pytest.mark.parametrize(
    "loss",
    [
        LossConfig("hungarian", cross_entropy=True),
        LossConfig("chamfer", cross_entropy=True),
        LossConfig("hungarian", masks="filter", mask_weight=7.0),
    ],
)
def test_the_distance_is_the_loss(animals, loss):
    target = animals.train.batch(np.arange(6), 0).target
    torch.manual_seed(0)
    predicted = Sets(torch.rand(6, animals.max_size, animals.features), torch.rand(6, animals.max_size))
    meter = make_meters(animals, loss)[loss.set]
    meter.update(predicted, target, torch.arange(6))
    assert float(meter.compute()) == pytest.approx(float(make_set_loss(loss, animals)(predicted, target).mean()))


def test_weights_below_zero_are_refused(animals):
    with pytest.raises(ConfigError, match=r"loss.repr_weight must be 0 or more, got -1"):
        make_set_loss(LossConfig(repr_weight=-1.0), animals)


def test_what_one_process_meets_is_raised_in_all(monkeypatch):
    task = make_task(DataConfig("multisets", points=4, test=4))
    model = SetPredictor.from_config(ModelConfig(max_size=4, features=2, latent=8, input=InputConfig("set", 2)))
    fabric = Fabric(accelerator="cpu", devices=1)
    asked = []
    monkeypatch.setattr("setpredict.training.devices.any_rank", lambda fabric, flag: asked.append(flag) or True)
    with pytest.raises(NotFinite, match="another process met a value that is not finite"):
        evaluate(fabric, model, task, LossConfig("hungarian"))
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    with pytest.raises(NotFinite, match="the vector to decode of sample 0 is nan"):
        evaluate(fabric, model, task, LossConfig("hungarian"))
    assert asked == [False, True]


def test_cross_entropy_needs_categories():
    with pytest.raises(ConfigError, match=r"loss.cross_entropy is for categories, and the elements of multisets"):
        make_set_loss(LossConfig(cross_entropy=True), make_task(DataConfig("multisets", train=8, val=8, test=8)))
