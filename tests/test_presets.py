"""Presets: their values, and their models; at the paper's scale, every model is built and takes one step."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from setpredict.build import make_loss, make_task
from setpredict.config import DataConfig, Experiment, Implicit, LastSteps, SceneOptions, Unrolled, from_json, to_json
from setpredict.core.errors import UserError
from setpredict.data.description import read_description, to_description
from setpredict.data.render.writer import write_scenes
from setpredict.data.task import Batch, SetTask
from setpredict.model import SetPredictor
from setpredict.presets import PRESETS, Scale, preset, scales_of
from setpredict.resolve import model_config
from setpredict.sets import Sets
from setpredict.studies import configure, studies
from setpredict.training.devices import make_fabric
from setpredict.training.loop import TrainState, fit

FOR_ALL_DATA = ("dspn", "idspn", "slots", "transformer", "mlp", "lstm")
SHAPES: dict[str, tuple[Any, int, int, int, Any]] = {  # input kind, input size, N, D, kind
    "polygons": ("vector", 8, 8, 2, "polygons"),
    "multisets": ("set", 2, 8, 2, "points"),
    "numbering": ("set", 4, 64, 68, "vectors"),
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
        if self.kind == "set":
            given = Sets(target.elements[..., : self.size], target.mask)
        else:
            given = torch.rand(shapes[self.kind], generator=generator)
        return Batch(given, target, torch.from_numpy(indices))


def synthetic(name: str) -> SetTask:
    input_kind, size, N, D, kind = SHAPES[name]
    split = Synthetic(input_kind, size, N, D)
    groups = {"material": (3, 5)} if kind == "states" else {}
    names = {"material": ("rubber", "metal")} if groups else {}
    if name == "numbering":
        groups = {"class": (0, 4), "number": (4, D)}
        names = {"class": tuple("abcd"), "number": tuple(map(str, range(N)))}
    variable = name not in ("multisets", "numbering")
    options = {"groups": groups, "categories": names, "auto_encodes": input_kind == "set" and size == D}
    return SetTask(name, input_kind, size, N, D, variable, kind, split, split, split, **options)


@pytest.mark.parametrize(("name", "scale"), [(name, scale) for name in PRESETS for scale in scales_of(name)])
def test_the_method_decides_the_decoder(name, scale):
    decoders = {method: preset(name, method, scale).decoder for method in FOR_ALL_DATA}
    assert {method: decoder.method for method, decoder in decoders.items()} == {
        "dspn": "DSPN",
        "idspn": "iDSPN",
        "slots": "Slot Attention",
        "transformer": "Transformer",
        "mlp": "MLP",
        "lstm": "LSTM",
    }
    assert decoders["dspn"].gradient == Unrolled()
    assert decoders["idspn"].gradient == Implicit()


def test_only_images_have_a_medium_scale():
    assert preset("scenes-state", scale="medium").data.size == 128
    with pytest.raises(UserError, match="mnist has no scale 'medium'; its scales are paper, small"):
        preset("mnist", scale="medium")


COUNTS = {("mnist", "dspn"): 85_634}  # parameters of the paper's auto-encoder


@pytest.mark.slow
@pytest.mark.parametrize("method", FOR_ALL_DATA)
@pytest.mark.parametrize("name", PRESETS)
def test_one_step_at_the_papers_scale(name, method, capsys):
    experiment = preset(name, method, "paper")
    experiment.train = replace(experiment.train, max_steps=1, batch_size=2, workers=0, threads=1)
    task = synthetic(name)
    fabric = make_fabric(experiment.train)
    state = TrainState.fresh(fabric, SetPredictor.from_config(model_config(experiment, task)), experiment.train)
    fit(fabric, state, task, experiment.train, make_loss(experiment.loss, task))
    assert state.step == 1
    count = sum(p.numel() for p in state.model.parameters())
    with capsys.disabled():
        print(f"{name} {method}: {count:,} parameters")
    assert count == COUNTS.get((name, method), count)


def test_the_papers_hyperparameters():
    mnist = preset("mnist", "dspn", "paper")
    assert (mnist.train.lr, mnist.train.batch_size, mnist.train.epochs) == (0.01, 32, 100)
    assert (mnist.train.clip_grad, mnist.train.schedule, mnist.train.ema) == (None, "constant", 0.0)
    assert (mnist.decoder.solver.steps, mnist.decoder.solver.step_size, mnist.loss.repr_weight) == (10, 25.0, 0.1)
    assert (mnist.loss.set, mnist.loss.steps, mnist.loss.masks) == ("chamfer", "all", "feature")
    state = preset("clevr-state", "dspn", "paper")
    assert (state.train.lr, state.latent, state.encoder.kind, state.encoder.hidden) == (3e-4, 512, "relation", (512,))
    assert (state.input.depth, state.input.width, state.data.size) == (34, 64, 128)
    idspn = preset("clevr-state", "idspn", "paper")
    solver = idspn.decoder.solver
    assert (solver.steps, idspn.train.few_steps_until, idspn.train.batch_size) == (40, 0.5, 128)
    assert (solver.clip_norm, solver.momentum, solver.nesterov) == (10.0, 0.9, True)
    assert (idspn.encoder.kind, idspn.encoder.pool, idspn.encoder.normalize) == ("mlp", "fspool-free", False)
    assert (idspn.input.depth, idspn.input.tail, idspn.loss.repr_weight) == (18, "idspn", 0.0)
    assert (idspn.train.lr, idspn.train.schedule, idspn.train.decay_at) == (1e-3, "step", (0.9,))
    assert preset("mnist", "mlp", "paper").decoder.mask_bias == 1.0


def test_the_published_sizes_of_attention():
    slots = preset("clevr-state", "slots", "paper")
    assert (slots.decoder.solver.steps, slots.decoder.width, slots.decoder.hidden) == (3, 64, (128,))
    assert (slots.loss.steps, slots.train.lr, slots.train.warmup_steps > 0) == ("last", 4e-4, True)
    detr = preset("clevr-state", "transformer", "paper")
    assert (detr.decoder.solver.steps, detr.decoder.width, detr.decoder.heads) == (6, 256, 8)
    assert (detr.decoder.hidden, detr.decoder.queries, detr.loss.steps) == ((2048,), "learned", "all")


def test_numbering_starts_from_its_input():
    sizes: dict[Scale, int] = {"paper": 64, "small": 8}
    for scale, points in sizes.items():
        dspn, idspn, transformer = (preset("numbering", m, scale) for m in ("dspn", "idspn", "transformer"))
        assert (dspn.decoder.initial, idspn.decoder.initial, transformer.decoder.queries) == (
            "input",
            "input",
            "input+random",
        )
        assert {e.data.points for e in (dspn, idspn, transformer)} == {points}
        assert transformer.loss.cross_entropy
    paper = preset("numbering", "idspn", "paper")
    assert (paper.latent, paper.train.batch_size, paper.train.epochs, paper.train.lr) == (64, 128, 50, 1e-3)


def test_idspn_on_mnist_decays_its_weights():
    """On hundreds of points, a gradient of one step lets the scale of the representation grow without bound."""
    small = preset("mnist", "idspn", "small")
    assert (small.decoder.method, small.decoder.gradient) == ("iDSPN", Implicit())
    assert (small.train.optimizer, small.train.weight_decay, small.train.lr) == ("adamw", 1.0, 1e-3)
    others = [preset(name, "idspn", "small").train for name in PRESETS if name != "mnist"]
    assert {(train.optimizer, train.weight_decay) for train in others} == {("adam", 0.0)}


def test_the_last_step_gradient_is_a_row_of_the_mnist_study():
    study = studies()["mnist"]
    row = study.row("DSPN, last-step gradient")
    experiment = configure(study, row, "small", seed=3)
    decoder, solver, train = experiment.decoder, experiment.decoder.solver, experiment.train
    assert decoder.method == row.name
    assert (decoder.gradient, decoder.initial, decoder.loss, decoder.mask) == (LastSteps(1), "fixed", "huber", "clamp")
    assert (solver.steps, solver.step_size, solver.momentum, solver.nesterov) == (12, 12.5, 0.5, True)
    assert (experiment.loss.steps, experiment.loss.repr_weight) == ("last", 0.0)
    assert (train.lr, train.optimizer, train.weight_decay, train.seed) == (1e-3, "adamw", 1.0, 3)
    assert row.steps == (12, 24)


def test_every_call_gives_an_experiment_of_its_own():
    """Experiments are mutable: changing one must not change the next."""
    for method in FOR_ALL_DATA:
        first = preset("mnist", method)
        first.decoder.hidden, first.encoder.hidden, first.train.lr, first.data.val = (1,), (1,), 9.0, 1
        again = preset("mnist", method)
        assert (again.decoder.hidden, again.train.lr, again.data.val) != ((1,), 9.0, 1), method
        assert again == preset("mnist", method), method


def test_an_experiment_with_an_absolute_data_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = preset("folder")
    experiment.data.folder = "here"
    assert experiment.located().data.folder == str(tmp_path / "here")
    assert experiment.data.folder == "here"
    assert experiment.located() == experiment.located().located()
    assert preset("multisets").located() == preset("multisets")


def test_the_first_samples_of_a_data_set():
    task = make_task(DataConfig("multisets", train=10, val=5, test=7))
    assert [len(task.split(s)) for s in ("train", "val", "test")] == [10, 5, 7]
    small = make_task(DataConfig("polygons")).limited(test=3)
    assert len(small.test) == 3
    with pytest.raises(ValueError, match="0 to 1000 samples, got 2000"):
        small.limited(val=2000)


def test_unknown_presets_are_named():
    with pytest.raises(UserError, match="there is no preset 'coco'; presets are polygons, multisets"):
        preset("coco")


def test_an_empty_split_has_no_samples():
    task = make_task(DataConfig("polygons")).limited(val=0)
    assert (len(task.train), len(task.val), len(task.test)) == (32_000, 0, 1_000)
    with pytest.raises(ValueError, match="the split is empty"):
        task.loader("val", 4)
    with pytest.raises(UserError, match=r"--data.val must be at least 0, got -1"):
        make_task(DataConfig("multisets", val=-1))


def set_folder(root: Path, inputs: tuple[int, ...], outputs: tuple[int, ...], same: bool = False) -> DataConfig:
    """Input and target sets of the given sizes, both with two features."""
    pairs = list(zip(inputs, outputs, strict=True))
    lines = [{"input": [[i, j] for j in range(n)], "set": [[j, i] for j in range(m)]} for i, (n, m) in enumerate(pairs)]
    lines = [line | {"input": line["set"]} for line in lines] if same else lines
    (root / "train.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    (root / "val.jsonl").write_text(json.dumps(lines[0]))
    return DataConfig("folder", str(root))


@pytest.mark.parametrize("method", FOR_ALL_DATA)
@pytest.mark.parametrize(
    ("inputs", "outputs", "shared", "capacity"),
    [
        ((3, 1, 2), (2, 1, 2), False, 3),  # larger than the outputs
        ((1, 3, 2), (2, 2, 2), False, 3),  # larger and of several sizes, outputs of one
        ((0, 2, 1), (2, 2, 2), False, 2),
        ((2, 2, 2), (3, 3, 3), False, 2),  # of one size each, but not the same
        ((2, 1, 0), (3, 1, 2), False, 2),
        ((3, 1, 2), (3, 1, 2), False, 3),  # the same sizes, but other sets
        ((3, 1, 2), (3, 1, 2), True, 3),  # each is its own target
        ((2, 2, 2), (2, 2, 2), True, 2),
    ],
)
def test_input_sets_have_sizes_of_their_own(tmp_path, method, inputs, outputs, shared, capacity):
    experiment = preset("folder", method)
    experiment.data = set_folder(tmp_path, inputs, outputs, same=shared)
    task = make_task(experiment.data)
    assert task.auto_encodes == shared
    assert (task.max_input_size, task.input_variable) == (max(inputs), len(set(inputs)) > 1)
    (tmp_path / "task.json").write_text(json.dumps(to_description(task)))
    described = read_description(tmp_path / "task.json")
    assert (described.max_input_size, described.input_variable) == (task.max_input_size, task.input_variable)
    config = model_config(experiment, task)
    assert model_config(experiment, described) == config
    assert (config.input.shared, config.input.max_size or config.max_size) == (shared, capacity)
    model = SetPredictor.from_config(from_json(type(config), to_json(config)))
    batch = task.train.batch(np.arange(3), 0)
    assert model(batch.input, batch.target).final.elements.shape == (3, max(outputs), 2)
    assert isinstance(batch.input, Sets)
    alone = model.encode(model.prepare(batch.input.to_list()[:1]))  # the amount of padding does not matter
    torch.testing.assert_close(alone.vector, model.encode(batch.input).vector[:1])


def test_the_capacity_for_input_sets_can_be_set(tmp_path):
    experiment = preset("folder")
    experiment.data = set_folder(tmp_path, (3, 3), (2, 2))
    task = make_task(experiment.data)
    experiment.input.max_size = 5
    config = model_config(experiment, task)
    assert (config.input.max_size, config.input.variable, config.input.shared) == (5, True, False)
    assert len(SetPredictor.from_config(config).predict(task.train.batch(np.arange(2), 0).input)) == 2
    experiment.input.max_size = 2
    with pytest.raises(UserError, match=r"input.max_size must be at least 3, as the largest input set, got 2"):
        model_config(experiment, task)


def test_a_shared_encoder_without_masks_takes_sets_of_one_size_only():
    config = model_config(preset("multisets"), synthetic("multisets"))
    assert (config.input.shared, config.input.max_size, config.input.variable) == (True, 0, None)
    config.input.variable = True
    with pytest.raises(UserError, match=r"one fixed size, but input.variable is true; set input.shared to false"):
        SetPredictor.from_config(config)
    config.input.shared = False
    assert len(SetPredictor.from_config(config).predict([[[0.1, 0.2]], []])) == 2


def test_fields_that_an_older_configuration_lacks_have_their_defaults():
    saved = to_json(preset("mnist"))
    del saved["input"]["variable"]
    assert from_json(Experiment, saved) == preset("mnist")


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


def test_the_preset_folder_takes_whatever_data_check_takes(tmp_path, monkeypatch):
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
    with pytest.raises(UserError, match=r"nothing contains no data set: expected train.jsonl, "):
        make_task(DataConfig("folder", str(tmp_path / "nothing")))
    for needed in (DataConfig("folder"), DataConfig("coco")):
        with pytest.raises(UserError, match=f"--data.folder is needed for the data set '{needed.name}'"):
            make_task(needed)


def test_the_preset_folder_takes_clevrs_layout(tmp_path, monkeypatch):
    monkeypatch.setenv("SETPREDICT_CACHE", str(tmp_path / "cache"))
    made = write_scenes(SceneOptions(tmp_path / "made", train=4, val=1, size=8))
    task = make_task(DataConfig("folder", str(made), target="box", size=8))
    assert (task.name, task.kind, task.input_size, len(task.test)) == ("clevr-box", "boxes", 8, 1)
