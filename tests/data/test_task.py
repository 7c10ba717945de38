"""Tasks and loaders: the same batches every time, for any number of ranks and workers, starting at any batch."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from setpredict.core.errors import UserError
from setpredict.data.sources.multisets import multisets
from setpredict.data.task import Batch, Fields, SetTask


def assert_same(a: Batch, b: Batch) -> None:
    for name, x, y in (
        ("index", a.index, b.index),
        ("elements", a.target.elements, b.target.elements),
        ("mask", a.target.mask, b.target.mask),
    ):
        assert torch.equal(x, y), f"{name} of batch {a.index.tolist()} and {b.index.tolist()} differ"


@pytest.fixture
def task() -> SetTask:
    return multisets(n=5, variable=True, train=103, val=23, test=7)


def test_loader_repeats_and_epochs_differ(task: SetTask):
    loader = task.loader("train", 10, epoch=3)
    first, second = list(loader), list(loader)
    assert len(first) == len(loader) == 10
    for a, b in zip(first, second, strict=True):
        assert_same(a, b)
    other = list(task.loader("train", 10, epoch=4))
    assert not torch.equal(first[0].index, other[0].index)
    a = task.train.batch(np.arange(5), 3).target.elements
    assert not torch.equal(a, task.train.batch(np.arange(5), 4).target.elements)


def test_seed_changes_the_order(task: SetTask):
    a = torch.cat([b.index for b in task.loader("train", 10, seed=0)])
    b = torch.cat([b.index for b in task.loader("train", 10, seed=1)])
    assert not torch.equal(a, b)
    assert len(a.unique()) == 100  # no sample twice


def test_val_does_not_change_with_the_epoch(task: SetTask):
    a, b = (list(task.loader("val", 10, epoch=e)) for e in (0, 5))
    for x, y in zip(a, b, strict=True):
        assert_same(x, y)
    assert torch.cat([x.index for x in a]).tolist() == list(range(23))


@pytest.mark.parametrize("start", [0, 3, 10])
def test_start_resumes_bit_equal(task: SetTask, start: int):
    complete = list(task.loader("train", 10, epoch=1))
    rest = task.loader("train", 10, epoch=1, start=start)
    assert len(rest) == 10 - start
    for a, b in zip(complete[start:], rest, strict=True):
        assert_same(a, b)


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_give_identical_batches(task: SetTask, workers: int):
    for split in ("train", "val"):
        a = list(task.loader(split, 4, workers=0))
        b = list(task.loader(split, 4, workers=workers))
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)


def test_leaving_a_loader_with_workers_ends_its_threads(task: SetTask):
    import threading

    before = threading.active_count()
    for _ in task.loader("train", 4, workers=2):
        break
    assert threading.active_count() <= before


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
@pytest.mark.parametrize("split", ["val", "test"])
def test_ranks_share_val_and_test_exactly(task: SetTask, world_size: int, split: str):
    parts = [list(task.loader(split, 4, rank=r, world_size=world_size)) for r in range(world_size)]
    seen = torch.cat([b.index for part in parts for b in part])
    assert sorted(seen.tolist()) == list(range(len(task.split(split))))


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_share_training_equally(task: SetTask, world_size: int):
    loaders = [task.loader("train", 4, rank=r, world_size=world_size) for r in range(world_size)]
    assert len({len(loader) for loader in loaders}) == 1
    rounds = list(zip(*loaders))
    one = list(task.loader("train", 4 * world_size))
    for together, alone in zip(rounds, one, strict=True):  # the ranks' batches make up the single process's batch
        assert torch.equal(torch.cat([b.index for b in together]), alone.index)
    assert len(torch.cat([b.index for r in rounds for b in r]).unique()) == len(rounds) * 4 * world_size


def test_less_data_than_a_batch(task: SetTask):
    assert [len(b) for b in task.loader("train", 1000)] == [103]
    assert [len(b) for b in task.loader("train", 1000, rank=1, world_size=2)] == [51]
    with pytest.raises(UserError, match="7 samples are too few for 8 ranks"):
        multisets(train=7).loader("train", 4, rank=0, world_size=8)


def test_items_do_not_depend_on_their_batch(task: SetTask):
    together = task.train.batch(np.array([4, 9, 2]), 7).target
    for i, index in enumerate([4, 9, 2]):
        alone = task.train.batch(np.array([index]), 7).target
        assert torch.equal(together.elements[i], alone.elements[0])
        assert torch.equal(together.mask[i], alone.mask[0])


def test_global_state_is_not_used(task: SetTask):
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    a = next(iter(task.loader("train", 8)))
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    assert_same(a, next(iter(task.loader("train", 8))))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"batch_size": 4, "rank": 2, "world_size": 2}, "rank must be from 0 to world_size - 1 = 1, got 2"),
        ({"batch_size": 4, "start": 99}, "start must be from 0 to 25 batches, got 99"),
        ({"batch_size": 4, "workers": -1}, "workers must be at least 0, got -1"),
    ],
)
def test_bad_loader_options(task: SetTask, options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        task.loader("train", **options)


def test_unknown_and_empty_splits(task: SetTask):
    with pytest.raises(UserError, match="split must be one of train, val, test or all, got 'dev'"):
        task.loader("dev", 4)
    with pytest.raises(UserError, match="the split is empty"):
        multisets(val=0).loader("val", 4)


def test_all_samples_of_a_data_set(task: SetTask):
    parts = [batch for name in ("train", "val", "test") for batch in [task.split(name)]]
    every = task.split("all")
    assert len(every) == sum(map(len, parts))
    first = len(parts[0])
    mixed = every.batch(np.array([first, 0, 1, len(every) - 1]), 0)
    alone = [parts[1].batch(np.array([0]), 0), parts[0].batch(np.array([0, 1]), 0)]
    alone.append(parts[2].batch(np.array([len(parts[2]) - 1]), 0))
    assert torch.equal(mixed.target.elements, torch.cat([b.target.elements for b in alone]))
    assert mixed.index.tolist() == [first, 0, 1, len(every) - 1]
    shared = replace(task, test=task.val)
    for same in (shared, shared.limited(test=2), shared.limited(val=2)):  # val is not counted twice
        assert len(same.split("all")) == first + len(parts[1])


def test_subsets(task: SetTask):
    small = task.limited(train=4, val=0)
    assert [len(small.split(name)) for name in ("train", "val", "test")] == [4, 0, 7]
    assert_same(small.train.batch(np.arange(4), 2), task.train.batch(np.arange(4), 2))
    with pytest.raises(UserError, match="a subset of this split must have 0 to 7 samples, got 8"):
        task.limited(test=8)


@pytest.fixture
def unit(task: SetTask) -> SetTask:
    return SetTask("t", "vector", 1, 4, 7, True, "vectors", task.train, task.val, task.test,
                   feature_names=("speed", "red", "green", "blue", "age", "old", "new"),
                   groups={"color": (1, 4), "state": (5, 7)}, spoken=("state", "color"),
                   categories={"color": ("red", "green", "blue"), "state": ("old", "new")},
                   offset=(10.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), scale=(2.0, 1.0, 1.0, 1.0, 4.0, 1.0, 1.0))  # fmt: skip


def test_denormalize(task: SetTask, unit: SetTask):
    assert torch.equal(task.denormalize(torch.ones(2, 2)), torch.ones(2, 2))
    assert unit.denormalize(torch.tensor([[0.5, 0, 0, 1, 2, 0, 1]])).tolist() == [[11.0, 0, 0, 1, 8, 0, 1]]


@pytest.mark.parametrize("kind", [list, torch.tensor])
def test_an_element_as_fields_and_as_text(unit: SetTask, kind):
    element = kind([0.5, 0.1, 0.7, 0.2, 0.25, -3.0, -4.0])
    fields = unit.fields(element)
    assert fields == Fields({"speed": 11.0, "age": 1.0}, {"state": "old", "color": "green"})
    assert list(fields.categories) == ["state", "color"]  # the order in text
    assert unit.describe(element) == "(11.00, 1.00) old green"


def test_elements_without_categories_or_numbers(task: SetTask):
    assert task.fields([0.25, 0.5]) == Fields({"x": 0.25, "y": 0.5}, {})
    assert task.describe([0.25, 0.5]) == "(0.25, 0.50)"
    only = SetTask("t", "vector", 1, 4, 2, True, "vectors", task.train, task.val, task.test,
                   groups={"color": (0, 2)}, categories={"color": ("red", "green")})  # fmt: skip
    assert only.fields([0.0, 1.0]) == Fields({}, {"color": "green"})
    assert only.describe([0.0, 1.0]) == "green"


def test_names_of_numbers_must_differ(task: SetTask):
    with pytest.raises(ValueError, match="numbers must have different feature names, got x, x"):
        SetTask("t", "vector", 1, 4, 2, True, "vectors", task.train, task.val, task.test, feature_names=("x", "x"))


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (1.0, "0.00"),
        (0.5, "0.00"),
        (0.05, "0.001"),
        (0.004, "0.0010"),
        (6.0, "0.00"),
        (90.0, "0.00"),
        (1e4, "0"),
        (0.0, "0.00"),
    ],
)
def test_numbers_have_as_many_decimals_as_their_range_needs(task: SetTask, span: float, text: str):
    found = replace(task, offset=(0.001, 0.0), scale=(span, 1.0))
    assert found.describe([0.0, 0.5]) == f"({text}, 0.50)"
