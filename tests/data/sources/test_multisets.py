"""Random multisets."""

import numpy as np
import pytest
import torch

from setpredict.core.errors import UserError
from setpredict.data.sources.multisets import multisets


def first(task, split="train", size=64):
    return next(iter(task.loader(split, size)))


def test_fixed_size_in_the_unit_cube():
    batch = first(multisets(n=6, dim=3))
    assert batch.target.elements.shape == (64, 6, 3)
    assert batch.target.mask.all()
    assert batch.target.elements.min() >= 0
    assert batch.target.elements.max() < 1
    assert batch.input is batch.target


@pytest.mark.parametrize("n", [2, 5, 8])
def test_duplicates_always_occur_if_requested(n: int):
    for s in first(multisets(n=n, duplicates=True)).target.to_list():
        assert len(s.unique(dim=0)) < n
    for s in first(multisets(n=n)).target.to_list():
        assert len(s.unique(dim=0)) == n


def test_variable_sizes_cover_their_range():
    target = first(multisets(n=4, variable=True, min_size=0), size=256).target
    assert sorted(target.sizes.unique().tolist()) == [0, 1, 2, 3, 4]
    assert (target.elements[~target.mask] == 0).all()


def test_splits_differ():
    task = multisets()
    a, b = (task.split(s).batch(np.arange(4), 0).target.elements for s in ("val", "test"))
    assert not torch.equal(a, b)


def test_bad_options():
    with pytest.raises(UserError, match="got n=0, dim=2"):
        multisets(n=0)
    with pytest.raises(UserError, match="min_size must be from 0 to n=3, got 5"):
        multisets(n=3, variable=True, min_size=5)


def test_normal_elements_have_the_moments_of_the_normal_distribution():
    elements = first(multisets(n=16, dim=4, distribution="normal"), size=512).target.elements
    values = elements.flatten().double()
    assert abs(values.mean().item()) < 0.03
    assert abs(values.var().item() - 1) < 0.05
    assert abs((values**4).mean().item() - 3) < 0.3
    correlation = torch.corrcoef(elements.flatten(1).T.double()) - torch.eye(64)  # over 512 sets
    assert correlation.abs().max() < 0.25
    with pytest.raises(UserError, match="distribution must be uniform or normal, got 'gamma'"):
        multisets(distribution="gamma")
