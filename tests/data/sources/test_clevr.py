"""CLEVR in its original layout."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from setpredict.build import make_task
from setpredict.config import DataConfig, SceneOptions
from setpredict.core.errors import UserError
from setpredict.data.clevr.scene_files import parse_scenes
from setpredict.data.render.writer import write_scenes
from setpredict.data.sources.clevr import clevr
from setpredict.data.splits import StoredSplit
from tests.data.state_objects import state_to_objects


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 + 6 generated scenes in CLEVR's layout."""
    out = tmp_path_factory.mktemp("made") / "clevr"
    return write_scenes(SceneOptions(out, train=40, val=6, size=32, seed=5))


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "clevr"))


def source(split) -> StoredSplit:
    assert isinstance(split, StoredSplit)
    return split


def test_the_original_excerpt(real_data: Path):
    task = clevr(real_data / "clevr-excerpt", size=64)
    assert (len(task.train), len(task.val), len(task.test)) == (95, 5, 3)
    batch = next(iter(task.loader("train", 8)))
    assert isinstance(batch.input, torch.Tensor)
    assert batch.input.shape == (8, 3, 64, 64)
    assert 0.1 < batch.input.mean() < 0.8
    assert batch.target.elements.shape == (8, 10, 18)
    assert (batch.target.elements[~batch.target.mask] == 0).all()
    first = json.loads((real_data / "clevr-excerpt/scenes/CLEVR_val_scenes.json").read_text())["scenes"][0]
    test = next(iter(task.loader("test", 3)))
    states = test.target.to_list()[0]
    for o, state, decoded in zip(first["objects"], states, state_to_objects(states.numpy()), strict=True):
        attributes = {name: o[name] for name in ("size", "color", "material", "shape")}
        assert attributes == {name: getattr(decoded, name) for name in attributes}
        assert decoded.position == pytest.approx(o["3d_coords"], abs=1e-5)
        fields = task.fields(state)
        assert fields.categories == attributes
        assert list(fields.numbers.values()) == pytest.approx(o["3d_coords"], abs=1e-5)


@pytest.mark.parametrize("boxes", ["paper", "exact"])
def test_boxes(made: Path, boxes):
    task = clevr(made, "box", boxes, size=16)
    assert (task.kind, task.features, task.groups) == ("boxes", 4, {})
    for batch in task.loader("val", 2):
        box = batch.target.elements[batch.target.mask]
        assert (box[:, 2:] > box[:, :2]).all()
        if boxes == "exact":
            assert box.min() >= 0
            assert box.max() <= 1


def test_val_is_a_random_part_of_train(made: Path):
    a, b, c = (clevr(made, size=16, val=0.25, seed=s) for s in (0, 0, 1))
    assert (len(a.train), len(a.val), len(a.test)) == (30, 10, 6)
    assert sorted([*source(a.train).chosen, *source(a.val).chosen]) == list(range(40))
    assert np.array_equal(source(a.val).chosen, source(b.val).chosen)
    assert not np.array_equal(source(a.val).chosen, source(c.val).chosen)


def test_images_and_targets_belong_together(made: Path):
    from PIL import Image

    task = clevr(made, size=32, val=0.2)
    for name in ("train", "val", "test"):
        split = source(task.split(name))
        batch = split.batch(np.array([1, 0]), 0)
        assert isinstance(batch.input, torch.Tensor)
        for b, i in enumerate((1, 0)):
            scene = int(split.chosen[i])
            theirs = "val" if name == "test" else "train"
            table = parse_scenes(made / "scenes" / f"CLEVR_{theirs}_scenes.json")
            file = made / "images" / theirs / table.image[scene]
            assert np.array_equal(
                (batch.input[b] * 255).round().numpy(), np.asarray(Image.open(file)).transpose(2, 0, 1)
            )
            objects = batch.target.to_list()[b].numpy()
            assert objects[:, :3] * 3 == pytest.approx(table.coords[table.rows(scene)], abs=1e-6)


def test_missing_images_are_skipped_and_counted(copy: Path):
    for i in (0, 7, 8):
        (copy / "images" / "train" / f"CLEVR_train_{i:06d}.png").unlink()
    with pytest.warns(UserWarning, match="skipped 3 of 40 scenes of split train: their image is not in"):
        task = clevr(copy, size=16, val=0.0)
    assert len(task.train) == 37
    table = parse_scenes(copy / "scenes" / "CLEVR_train_scenes.json")
    states = task.train.batch(np.arange(37), 0).target.to_list()
    for kept, original in ((0, 1), (5, 6), (6, 9), (36, 39)):
        assert states[kept][:, :3] * 3 == pytest.approx(table.coords[table.rows(original)], abs=1e-6)
    shutil.rmtree(copy / "images" / "val")
    with (
        pytest.raises(UserError, match="none of the images of 6 scenes of split val is in"),
        pytest.warns(UserWarning, match="skipped 3 of 40"),
    ):
        clevr(copy, size=16)


def test_a_broken_png_is_named(copy: Path):
    file = copy / "images" / "train" / "CLEVR_train_000003.png"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(UserError, match=r"CLEVR_train_000003.png is not a valid PNG image"):
        clevr(copy, size=16)


def test_images_outside_the_folder_are_an_error_unless_allowed(copy: Path, tmp_path: Path):
    file = copy / "images" / "train" / "CLEVR_train_000003.png"
    file.symlink_to(file.rename(tmp_path / "secret.png"))
    with pytest.raises(UserError, match=r"image CLEVR_train_000003.png is .*/secret.png, outside .*/train"):
        clevr(copy, size=16)
    task = make_task(DataConfig("clevr", str(copy), size=16, allow_outside=True))
    assert len(task.train) + len(task.val) == 40


def test_bad_arguments(made: Path, tmp_path: Path):
    with pytest.raises(UserError, match=r"CLEVR not found in .*nowhere: expected a folder with .* images and scenes"):
        clevr(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"val must be a fraction of the training samples, from 0 to below 1, got 1\.0"):
        clevr(made, val=1.0)
    with pytest.raises(UserError, match="the image size must be at least 1, got 0"):
        clevr(made, size=0)
