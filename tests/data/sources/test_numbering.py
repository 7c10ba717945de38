"""Numbering: targets against a plain count, determinism, and impossible sizes."""

from collections import Counter

import numpy as np
import pytest
import torch

from setpredict.build import make_task
from setpredict.config import DataConfig
from setpredict.core.errors import UserError
from setpredict.data.sources.numbering import numbering
from setpredict.sets import Sets


@pytest.mark.parametrize(("n", "classes"), [(16, 4), (5, 1), (1, 3), (9, 30)])
def test_every_member_of_a_class_has_its_own_number(n, classes):
    task = numbering(n, classes, train=50)
    batch = task.train.batch(np.arange(50), 0)
    assert isinstance(batch.input, Sets)
    assert batch.input.elements.shape == (50, n, classes)
    assert batch.target.elements.shape == (50, n, classes + n)
    assert batch.target.mask.all()
    for given, wanted in zip(batch.input.elements, batch.target.elements):
        assert torch.equal(given, wanted[:, :classes])
        members = Counter(given.argmax(dim=1).tolist())
        expected = sorted((kind, number) for kind, count in members.items() for number in range(count))
        found = sorted(zip(wanted[:, :classes].argmax(1).tolist(), wanted[:, classes:].argmax(1).tolist()))
        assert found == expected
        assert wanted.sum() == 2 * n
        assert set(wanted.unique().tolist()) <= {0.0, 1.0}


def test_classes_are_drawn_with_equal_probabilities():
    batch = numbering(16, 4).test.batch(np.arange(1000), 0)
    assert isinstance(batch.input, Sets)
    shares = batch.input.elements.mean(dim=(0, 1))
    torch.testing.assert_close(shares, torch.full((4,), 0.25), rtol=0, atol=0.015)  # 4 standard deviations


def test_samples_depend_on_the_seed_the_split_the_epoch_and_the_index_only():
    def drawn(split="train", epoch=0, seed=0, indices=(3, 4)):
        return numbering(8, seed=seed).split(split).batch(np.array(indices), epoch).target.elements

    assert torch.equal(drawn(), drawn())
    assert torch.equal(drawn(indices=(4,))[0], drawn()[1])
    for other in (drawn("val"), drawn(epoch=1), drawn(seed=1), drawn(indices=(5, 6))):
        assert not torch.equal(drawn(), other)


def test_elements_as_text_and_names():
    task = numbering(3, classes=28)
    assert task.categories["class"][:2] == ("a", "b")
    assert task.categories["class"][25:] == ("z", "aa", "ab")
    assert task.numbers == []
    assert not task.auto_encodes


def test_options_and_impossible_sizes():
    task = make_task(DataConfig("numbering", points=6, classes=3, train=10, val=4, test=5))
    assert (task.max_size, task.input_size, task.features) == (6, 3, 9)
    assert [len(task.split(s)) for s in ("train", "val", "test")] == [10, 4, 5]
    with pytest.raises(UserError, match="at least 1 element and 1 class, got 0 and 4"):
        make_task(DataConfig("numbering", points=0))
