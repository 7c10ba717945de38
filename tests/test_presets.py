"""Every preset loads; at the paper's scale, every model is built at full size and takes one step."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from setpredict.config import ConfigError, from_dict, to_dict
from setpredict.data.task import Batch, SetTask
from setpredict.model import SetPredictor
from setpredict.presets import METHODS, PRESETS, SCALES, DataConfig, Experiment, make_task, preset
from setpredict.sets import Sets
from setpredict.data.description import read_card, to_card
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
    options = {"groups": groups, "categories": names, "auto_encodes": input_kind == "set"}
    return SetTask(name, input_kind, size, N, D, variable, kind, split, split, split, **options)


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
    assert (idspn.encoder.kind, idspn.encoder.pool, idspn.encoder.normalize) == ("mlp", "fspool-free", False)
    assert (idspn.input.depth, idspn.input.tail, idspn.loss.repr_weight) == (18, "idspn", 0.0)
    assert (idspn.train.lr, idspn.train.schedule, idspn.train.decay_at) == (1e-3, "step", (0.9,))
    assert preset("mnist", "mlp", "paper").decoder.mask_bias == 1.0


def test_parts_of_a_data_set():
    task = make_task(DataConfig("multisets", train=10, val=5, test=7))
    assert [len(task.split(s)) for s in ("train", "val", "test")] == [10, 5, 7]
    small = make_task(DataConfig("polygons")).limited(test=3)
    assert len(small.test) == 3
    with pytest.raises(ValueError, match="0 to 1000 samples, got 2000"):
        small.limited(val=2000)


def test_unknown_presets_are_named():
    with pytest.raises(ConfigError, match="no preset is called 'coco'"):
        preset("coco")


def test_an_empty_part_is_a_split_of_no_samples():
    task = make_task(DataConfig("polygons")).limited(val=0)
    assert (len(task.train), len(task.val), len(task.test)) == (32_000, 0, 1_000)
    with pytest.raises(ValueError, match="the split is empty"):
        task.loader("val", 4)
    with pytest.raises(ConfigError, match=r"--data.val must be at least 0, got -1"):
        make_task(DataConfig("multisets", val=-1))


def set_folder(root: Path, inputs: tuple[int, ...], outputs: tuple[int, ...], same: bool = False) -> DataConfig:
    """Sets of the given sizes, going in and coming out, with two features both."""
    pairs = list(zip(inputs, outputs, strict=True))
    lines = [{"input": [[i, j] for j in range(n)], "set": [[j, i] for j in range(m)]} for i, (n, m) in enumerate(pairs)]
    lines = [line | {"input": line["set"]} for line in lines] if same else lines
    (root / "train.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    (root / "val.jsonl").write_text(json.dumps(lines[0]))
    return DataConfig("folder", str(root))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("inputs", "outputs", "shared", "room"),
    [
        ((3, 1, 2), (2, 1, 2), False, 3),  # larger than the outputs
        ((1, 3, 2), (2, 2, 2), False, 3),  # larger and of many sizes, outputs of one
        ((0, 2, 1), (2, 2, 2), False, 2),
        ((2, 2, 2), (3, 3, 3), False, 2),  # one size each, but not the same
        ((2, 1, 0), (3, 1, 2), False, 2),
        ((3, 1, 2), (3, 1, 2), False, 3),  # the same sizes, but other sets
        ((3, 1, 2), (3, 1, 2), True, 3),  # each is its own target
        ((2, 2, 2), (2, 2, 2), True, 2),
    ],
)
def test_input_sets_have_sizes_of_their_own(tmp_path, method, inputs, outputs, shared, room):
    experiment = preset("folder", method)
    experiment.data = set_folder(tmp_path, inputs, outputs, same=shared)
    task = make_task(experiment.data)
    assert task.auto_encodes == shared
    assert (task.max_input_size, task.input_variable) == (max(inputs), len(set(inputs)) > 1)
    (tmp_path / "card.json").write_text(json.dumps(to_card(task)))
    described = read_card(tmp_path / "card.json")
    assert (described.max_input_size, described.input_variable) == (task.max_input_size, task.input_variable)
    config = experiment.model(task)
    assert experiment.model(described) == config
    assert (config.input.shared, config.input.max_size or config.max_size) == (shared, room)
    model = SetPredictor.from_config(from_dict(type(config), to_dict(config)))
    batch = task.train.batch(np.arange(3), 0)
    assert model(batch.input, batch.target).final.elements.shape == (3, max(outputs), 2)
    assert isinstance(batch.input, Sets)
    alone = model.encode(model.prepare(batch.input.to_list()[:1]))  # how much padding there is does not matter
    torch.testing.assert_close(alone, model.encode(batch.input)[:1])


def test_room_for_input_sets_can_be_set(tmp_path):
    experiment = preset("folder")
    experiment.data = set_folder(tmp_path, (3, 3), (2, 2))
    task = make_task(experiment.data)
    experiment.input.max_size = 5
    config = experiment.model(task)
    assert (config.input.max_size, config.input.variable, config.input.shared) == (5, True, False)
    assert len(SetPredictor.from_config(config).predict(task.train.batch(np.arange(2), 0).input)) == 2
    experiment.input.max_size = 2
    with pytest.raises(ConfigError, match=r"input.max_size must be at least 3, as the largest input set, got 2"):
        experiment.model(task)


def test_a_shared_encoder_without_masks_takes_no_sets_that_vary():
    config = preset("multisets").model(synthetic("multisets"))
    assert (config.input.shared, config.input.max_size, config.input.variable) == (True, 0, None)
    config.input.variable = True
    with pytest.raises(ConfigError, match=r"one fixed size, but input.variable is true; set input.shared to false"):
        SetPredictor.from_config(config)
    config.input.shared = False
    assert len(SetPredictor.from_config(config).predict([[[0.1, 0.2]], []])) == 2


def test_configurations_from_before_input_sizes_still_load():
    saved = to_dict(preset("mnist"))
    del saved["input"]["variable"]
    assert from_dict(Experiment, saved) == preset("mnist")


def coco_folder(root: Path) -> Path:
    (root / "annotations").mkdir()
    (root / "train").mkdir()
    for i in range(3):
        Image.new("RGB", (20, 20), (200, 70 * i, 200)).save(root / "train" / f"{i}.png")
    made = {
        "images": [{"id": i, "file_name": f"{i}.png", "width": 20, "height": 20} for i in range(3)],
        "annotations": [{"image_id": i, "category_id": 1, "bbox": [2, 3, 10, 12]} for i in range(3)],
        "categories": [{"id": 1, "name": "thing"}],
    }
    (root / "annotations" / "instances_train.json").write_text(json.dumps(made))
    return root


def test_the_preset_folder_takes_what_data_check_takes(tmp_path, monkeypatch):
    monkeypatch.setenv("SETPREDICT_CACHE", str(tmp_path / "cache"))
    root = coco_folder(tmp_path)
    one = DataConfig("folder", str(root), size=16, train=1)
    for data in (
        one,
        replace(one, folder=str(root / "annotations" / "instances_train.json")),
        replace(one, name="coco"),
    ):
        task = make_task(data)
        assert (task.kind, task.input_size, len(task.train), len(task.val)) == ("boxes", 16, 1, 1)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(ValueError, match=r"nothing holds no data set: expected train.jsonl, "):
        make_task(DataConfig("folder", str(tmp_path / "nothing")))
    for needed in (DataConfig("folder"), DataConfig("coco")):
        with pytest.raises(ConfigError, match=f"--data.folder is needed for the data set '{needed.name}'"):
            make_task(needed)


def test_the_preset_folder_takes_clevrs_layout(tmp_path, monkeypatch):
    from setpredict.data.sources.scenes import SceneOptions, generate

    monkeypatch.setenv("SETPREDICT_CACHE", str(tmp_path / "cache"))
    made = generate(SceneOptions(tmp_path / "made", train=4, val=1, size=8))
    task = make_task(DataConfig("folder", str(made), target="box", size=8))
    assert (task.name, task.kind, task.input_size, len(task.test)) == ("clevr-box", "boxes", 8, 1)
