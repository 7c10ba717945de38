"""Rotated sets: distances stay, input and target turn together, and every epoch is different."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from setpredict.build import make_task
from setpredict.config import AugmentConfig, DataConfig
from setpredict.core.errors import UserError
from setpredict.data.plain import unaugmented
from setpredict.data.rotate import rotations
from setpredict.sets import Sets


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    (tmp_path / "task.json").write_text(json.dumps({"features": ["C", "H", "x", "y", "z"]}))
    samples = []
    for n in rng.integers(1, 6, 20):
        kinds, places = np.eye(2)[rng.integers(0, 2, n)], rng.normal(size=(n, 3)) * [5, 2, 1]
        samples.append(np.concatenate([kinds, places], axis=1).tolist())
    (tmp_path / "train.jsonl").write_text("\n".join(json.dumps({"input": s, "set": s}) for s in samples))
    return tmp_path


def config(folder: Path, **augment) -> DataConfig:
    return DataConfig("folder", str(folder), augment=AugmentConfig(**augment))


@pytest.mark.parametrize("dimensions", [2, 3])
def test_rotations_are_rotations_and_uniform(dimensions: int):
    numbers = torch.rand(4000, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    turns = rotations(numbers, dimensions)
    assert torch.allclose(turns @ turns.mT, torch.eye(dimensions, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(torch.linalg.det(turns), torch.ones(4000, dtype=torch.float64))
    assert turns.mean(dim=0).abs().max() < 0.05  # of uniformly distributed rotations it is 0
    assert (turns[:, 0, 0].square().mean() - 1 / dimensions).abs() < 0.03


def test_sets_turn_as_a_whole_about_the_center_of_their_input(folder: Path):
    task = make_task(config(folder, rotate=("x", "y", "z"), shift=2.0))
    indices = np.arange(len(task.train))
    before, after = unaugmented(task.train).batch(indices, 0), task.train.batch(indices, 0)
    moved = []
    for i in range(len(indices)):
        n = int(before.target.sizes[i])
        a, b = (task.denormalize(batch.target.elements[i, :n]) for batch in (before, after))
        assert torch.equal(a[:, :2], b[:, :2])
        assert torch.allclose(torch.cdist(a[:, 2:], a[:, 2:]), torch.cdist(b[:, 2:], b[:, 2:]), atol=1e-4)
        moved.append((a[:, 2:].mean(0) - b[:, 2:].mean(0)).abs().max().item())
        shown = task.denormalize_input(after.input)
        assert isinstance(shown, Sets)
        assert torch.allclose(shown.elements[i, :n], b, atol=1e-4)  # input and target alike
        assert not after.target.elements[i, n:].any()
    assert 1 < max(moved) <= 2.0001


def test_epochs_differ_and_repeat_and_validation_is_as_stored(folder: Path):
    task = make_task(config(folder, rotate=("x", "y")))
    indices = np.arange(6)
    first, again, other = (task.train.batch(indices, epoch).target.elements for epoch in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert torch.equal(task.train.batch(indices[3:], 0).target.elements, first[3:])
    plain = make_task(config(folder))
    assert torch.equal(
        task.val.batch(np.arange(2), 0).target.elements, plain.val.batch(np.arange(2), 0).target.elements
    )
    z = 4
    assert torch.equal(first[..., z], unaugmented(task.train).batch(indices, 0).target.elements[..., z])


@pytest.mark.parametrize("shift", [-1.0, float("nan"), float("inf")])
def test_shifts_are_finite(folder: Path, shift: float):
    with pytest.raises(UserError, match="shift must be a finite number from 0, got"):
        make_task(config(folder, rotate=("x", "y"), shift=shift))


@pytest.mark.parametrize("names", [("x",), ("x", "x"), ("x", "C"), ("x", "height")])
def test_coordinates_are_two_or_three_numbers(folder: Path, names: tuple):
    with pytest.raises(
        UserError, match=r"--data.augment.rotate needs two or three different numbers of x, y, z, got x"
    ):
        make_task(config(folder, rotate=names))


def test_other_inputs_cannot_be_rotated(folder: Path):
    lines = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    (folder / "train.jsonl").write_text(
        "\n".join(json.dumps({**line, "input": [1, i]}) for i, line in enumerate(lines))
    )
    with pytest.raises(UserError, match="is for inputs that are sets of elements like the target's"):
        make_task(config(folder, rotate=("x", "y")))
    data = config(folder, rotate=("x", "y"))
    assert make_task(replace(data, augmented=False)).features == 5
