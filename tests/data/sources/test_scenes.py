"""Scenes as a task: in memory, and rendered into a folder once."""

from typing import Any

import numpy as np
import pytest
import torch

from setpredict.config import SceneOptions
from setpredict.core.errors import UserError
from setpredict.data.render.writer import write_scenes
from setpredict.data.sources.clevr import clevr
from setpredict.data.sources.scenes import scenes


def test_in_memory_task():
    task = scenes("box", size=16, train=20, val=4, test=4, max_objects=5)
    a, b = (next(iter(task.loader("train", 4, workers=w, epoch=2))) for w in (0, 2))
    assert isinstance(a.input, torch.Tensor)
    assert a.input.shape == (4, 3, 16, 16)
    assert a.target.elements.shape == (4, 5, 4)
    assert torch.equal(a.input, b.input)  # pyright: ignore[reportArgumentType]
    assert torch.equal(a.target.elements, b.target.elements)
    states = scenes(states_only=True, train=20)
    batch = next(iter(states.loader("train", 4)))
    assert batch.input is batch.target
    assert (states.input_kind, states.input_size, batch.target.elements.shape) == ("set", 18, (4, 10, 18))


def test_boxes_are_the_papers_by_default():
    options: dict[str, Any] = {"states_only": True, "train": 8}
    default, paper, exact = (
        scenes("box", **boxes, **options).train.batch(np.arange(8), 0).target.elements
        for boxes in ({}, {"boxes": "paper"}, {"boxes": "exact"})
    )
    assert torch.equal(default, paper)
    assert not torch.allclose(default, exact, atol=1e-3)


def test_scenes_rendered_once_are_read_from_their_folder(tmp_path, cache):
    folder = tmp_path / "scenes"
    options: dict[str, Any] = {"size": 16, "max_objects": 4, "train": 6, "val": 2, "test": 3, "folder": folder}
    task = scenes("state", **options)
    assert [len(task.split(s)) for s in ("train", "val", "test")] == [6, 2, 3]
    assert (task.name, task.max_size, task.input_size) == ("scenes-state", 4, 16)
    first = task.train.batch(np.arange(6), 0)
    made = sorted((tmp_path / "scenes").rglob("*.png"))
    assert len(made) == 11
    before = [p.stat().st_mtime_ns for p in made]
    again = scenes("state", **options).train.batch(np.arange(6), 1)  # nothing is rendered again, epochs are equal
    assert [p.stat().st_mtime_ns for p in made] == before
    assert isinstance(first.input, torch.Tensor)
    assert isinstance(again.input, torch.Tensor)
    assert torch.equal(first.input, again.input)
    assert torch.equal(first.target.elements, again.target.elements)
    assert scenes("box", **options).features == 4
    with pytest.raises(UserError, match="was begun with train 8, not 9; use another folder"):
        scenes("state", **options | {"train": 7})  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match="leave out the folder"):
        scenes("state", states_only=True, **options)


@pytest.mark.parametrize("target", ["state", "box"])
def test_scenes_rendered_once_without_val_or_test(tmp_path, cache, target):
    options: dict[str, Any] = {"size": 16, "max_objects": 4, "train": 2, "folder": tmp_path / "scenes"}
    task = scenes(target, val=0, test=0, **options)
    assert [len(task.split(s)) for s in ("train", "val", "test")] == [2, 0, 0]
    with pytest.raises(UserError, match="train must be at least 1 to render scenes into a folder, got 0"):
        scenes(target, val=0, test=1, **(options | {"train": 0, "folder": tmp_path / "none"}))
    empty = write_scenes(SceneOptions(tmp_path / "empty", train=0, val=1, size=8))
    with pytest.raises(UserError, match=r"CLEVR_train_scenes.json has no scenes"):
        clevr(empty)
