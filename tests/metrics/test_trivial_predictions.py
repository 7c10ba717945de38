"""Trivial predictions: the best constant set against exhaustive search, means by hand, seeded random sets."""

import pytest
import torch

from setpredict import Sets, chamfer_loss, hungarian_loss
from setpredict.metrics.baselines import (
    CONSTANT,
    MEAN,
    RANDOM,
    baselines,
    best_constant,
    mean_prediction,
    random_training_sets,
)


def training_sets(count: int = 40, N: int = 3) -> Sets:
    g = torch.Generator().manual_seed(0)
    mask = torch.rand(count, N, generator=g) < 0.7
    return Sets(torch.rand(count, N, 1, generator=g) * mask[..., None], mask)


def mean_loss(constant: Sets, training: Sets, loss=hungarian_loss) -> float:
    count = len(training)
    repeated = Sets(constant.elements.expand(count, -1, -1), constant.mask.expand(count, -1))
    return float(loss(repeated, training).mean())


@pytest.mark.parametrize("loss", [hungarian_loss, chamfer_loss])
def test_the_constant_set_is_better_than_every_training_set(loss):
    training = training_sets()
    best = best_constant(training, loss, variable=True)
    others = [
        mean_loss(Sets(one.elements, one.mask.float()), training, loss) for one in map(training.__getitem__, range(40))
    ]
    assert mean_loss(best, training, loss) < min(others)
    assert bool(((best.mask >= 0) & (best.mask <= 1)).all())


def test_the_constant_set_is_the_best_of_a_grid():
    """Two numbers that are always present, and training sets with one number each: the optimum is known."""
    training = Sets.from_list([[[x]] for x in (0.1, 0.2, 0.3, 0.8, 0.9)])
    best = best_constant(training, hungarian_loss, variable=False)
    grid = [Sets(torch.tensor([[[x / 200]]]), torch.ones(1, 1)) for x in range(201)]
    assert mean_loss(best, training) <= min(mean_loss(one, training) for one in grid) + 1e-4
    assert float(best.elements) == pytest.approx(0.46, abs=0.02)  # the mean: Huber's cost is quadratic below 1
    assert best.mask.tolist() == [[1.0]]


def test_the_mean_prediction():
    training = Sets.from_list([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 0.0]], torch.zeros(0, 2)], max_size=3)
    found = mean_prediction(training, variable=True)
    assert found.elements.tolist() == [[[3.0, 2.0]] * 3]
    assert found.mask[0].tolist() == pytest.approx([2 / 3, 1 / 3, 0])
    assert mean_prediction(training, variable=False).mask.tolist() == [[1.0, 1.0, 1.0]]


def test_random_sets_are_training_sets_and_depend_on_the_sample_alone():
    training = training_sets()
    found = random_training_sets(training, torch.arange(100), seed=3)
    for i in range(100):
        equal = (training.elements == found.elements[i]).flatten(1).all(dim=1) & (training.mask == found.mask[i]).all(1)
        assert bool(equal.any()), f"sample {i} has a set that is not in the training data"
    again = random_training_sets(training, torch.tensor([57, 3]), seed=3)
    assert torch.equal(again.elements, found[torch.tensor([57, 3])].elements)
    other = random_training_sets(training, torch.arange(100), seed=4)
    assert not torch.equal(other.elements, found.elements)
    assert len({tuple(e.flatten().tolist()) for e in found.elements}) > 20


def test_empty_training_sets():
    empty = Sets(torch.zeros(3, 2, 1), torch.zeros(3, 2, dtype=torch.bool))
    found = baselines(empty, hungarian_loss, variable=True)
    assert list(found) == [CONSTANT, MEAN, RANDOM]
    for name, predict in found.items():
        predicted = predict(torch.arange(5))
        assert (len(predicted), int(predicted.sizes.sum())) == (5, 0), name
