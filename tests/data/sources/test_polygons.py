"""Regular polygons."""

import numpy as np
import pytest
import torch

from setpredict.data.sources.polygons import polygon, polygons
from setpredict.sets import Sets


@pytest.mark.parametrize("n", range(3, 9))
def test_equal_polygons_have_equal_inputs(n: int):
    input, target = polygon(n, [0.3, 0.3 + 2 * np.pi / n])
    assert torch.allclose(input[0], input[1], atol=1e-5)
    a, b = target.to_list()
    assert torch.allclose(torch.cdist(a, b).min(dim=1).values, torch.zeros(n), atol=1e-5)
    other, _ = polygon(n, [0.3 + np.pi / n])
    assert not torch.allclose(input[0], other[0], atol=0.1)


def test_polygons_are_regular_and_inside_the_unit_square():
    batch = next(iter(polygons().loader("train", 256)))
    assert isinstance(batch.input, torch.Tensor)
    assert batch.input.shape == (256, 8)
    assert sorted(batch.target.sizes.unique().tolist()) == [3, 4, 5, 6, 7, 8]
    assert batch.target.elements.min() >= 0
    assert batch.target.elements.max() <= 1
    for corners, one_hot in zip(batch.target.to_list(), batch.input[:, 2:]):
        n = len(corners)
        assert one_hot.argmax() == n - 3
        assert torch.allclose((corners - 0.5).norm(dim=1), torch.tensor(0.5), atol=1e-6)
        sides = (corners - corners.roll(1, 0)).norm(dim=1)
        assert torch.allclose(sides, torch.tensor(np.sin(np.pi / n)).float(), atol=1e-5)
    assert isinstance(batch.target, Sets)


def test_a_polygon_with_too_many_corners():
    with pytest.raises(ValueError, match="a polygon must have 3 to 8 corners, got 9 to 9"):
        polygon(9, 0.0)
