"""Every preset loads; at the paper's scale, every model is built at full size and takes one step."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from setpredict.config import ConfigError, from_dict, to_dict
from setpredict.data.task import Batch, SetTask
from setpredict.model import SetPredictor
from setpredict.presets import METHODS, PRESETS, SCALES, DataConfig, Experiment, make_task, preset
from setpredict.sets import Sets
from setpredict.training.devices import make_fabric
from setpredict.training.loop import TrainState, fit

SHAPES: dict[str, tuple[Any, int, int, int, Any]] = {  # input kind, input size, N, D, kind
    "polygons": ("vector", 8, 8, 2, "polygons"),
    "multisets": ("set", 2, 8, 2, "points"),
    "mnist": ("set", 2, 342, 2, "points"),
    "clevr-box": ("image", 128, 10, 4, "boxes"),
    "clevr-state": ("image", 128, 10, 18, "states"),
    "scenes-box": ("image", 128, 10, 4, "boxes"),
    "scenes-state": ("image", 128, 10, 18, "states"),
    "folder": ("vector", 30, 20, 5, "vectors"),
}


class Synthetic:
    """Random numbers of the right shape."""

    def __init__(self, kind: str, size: int, N: int, D: int):
        self.kind, self.size, self.N, self.D = kind, size, N, D

    def __len__(self) -> int:
        return 2

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        generator = torch.Generator().manual_seed(0)
        B = len(indices)
        target = Sets(torch.rand(B, self.N, self.D, generator=generator), torch.ones(B, self.N, dtype=torch.bool))
        shapes = {"vector": (B, self.size), "image": (B, 3, self.size, self.size)}
        given = target if self.kind == "set" else torch.rand(shapes[self.kind], generator=generator)
        return Batch(given, target, torch.from_numpy(indices))


def synthetic(name: str) -> SetTask:
    input_kind, size, N, D, kind = SHAPES[name]
    split = Synthetic(input_kind, size, N, D)
    groups = {"material": (3, 5)} if kind == "states" else {}
    names = {"material": ("rubber", "metal")} if groups else {}
    variable = name != "multisets"
    return SetTask(name, input_kind, size, N, D, variable, kind, split, split, split, groups=groups, categories=names)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_json(name, method, scale):
    experiment = preset(name, method, scale)
    assert from_dict(Experiment, to_dict(experiment)) == experiment
    assert experiment.decoder.kind == {"mlp": "mlp", "lstm": "lstm"}.get(method, "dspn")


COUNTS = {  # the auto-encoder's is in REPRODUCE's table; the others are recorded so that a change is seen
    ("mnist", "dspn"): 85_634,
}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PRESETS)
def test_a_dry_run_at_the_papers_scale(name, method, capsys):
    experiment = preset(name, method, "paper")
    experiment.train = replace(experiment.train, max_steps=1, batch_size=2, workers=0, threads=1)
    task = synthetic(name)
    fabric = make_fabric(experiment.train)
    state = TrainState.fresh(fabric, SetPredictor.from_config(experiment.model(task)), experiment.train)
    fit(fabric, state, task, experiment.train, experiment.loss)
    assert state.step == 1
    count = sum(p.numel() for p in state.model.parameters())
    with capsys.disabled():
        print(f"{name} {method}: {count:,} parameters")
    assert count == COUNTS.get((name, method), count)


def test_the_papers_hyperparameters():
    mnist = preset("mnist", "dspn", "paper")
    assert (mnist.train.lr, mnist.train.batch_size, mnist.train.epochs) == (0.01, 32, 100)
    assert (mnist.train.clip_grad, mnist.train.schedule, mnist.train.ema) == (None, "constant", 0.0)
    assert (mnist.decoder.steps, mnist.decoder.step_size, mnist.loss.repr_weight) == (10, 25.0, 0.1)
    assert (mnist.loss.set, mnist.loss.steps, mnist.loss.masks) == ("chamfer", "all", "feature")
    state = preset("clevr-state", "dspn", "paper")
    assert (state.train.lr, state.latent, state.encoder.kind, state.encoder.hidden) == (3e-4, 512, "relation", (512,))
    assert (state.input.depth, state.input.width, state.data.size) == (34, 64, 128)
    idspn = preset("clevr-state", "idspn", "paper")
    assert (idspn.decoder.steps, idspn.train.few_steps_until, idspn.train.batch_size) == (40, 0.5, 128)
    assert (idspn.decoder.clip_norm, idspn.decoder.momentum, idspn.decoder.nesterov) == (10.0, 0.9, True)
    assert (idspn.encoder.kind, idspn.encoder.pool, idspn.encoder.normalise) == ("mlp", "fspool-free", False)
    assert (idspn.input.depth, idspn.input.tail, idspn.loss.repr_weight) == (18, "idspn", 0.0)
    assert (idspn.train.lr, idspn.train.schedule, idspn.train.decay_at) == (1e-3, "step", (0.9,))
    assert preset("mnist", "mlp", "paper").decoder.mask_bias == 1.0


def test_parts_of_a_data_set():
    task = make_task(DataConfig("multisets", train=10, val=5, test=7))
    assert [len(task.split(s)) for s in ("train", "val", "test")] == [10, 5, 7]
    small = make_task(DataConfig("polygons")).limited(test=3)
    assert len(small.test) == 3
    with pytest.raises(ValueError, match="1 to 1000 samples, got 2000"):
        small.limited(val=2000)


def test_unknown_presets_are_named():
    with pytest.raises(ConfigError, match="no preset is called 'coco'"):
        preset("coco")
