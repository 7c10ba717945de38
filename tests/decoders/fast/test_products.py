"""The matrix products inside of kernels against numpy, for every height of a tile."""

import numpy as np
import pytest
import torch

from setpredict.decoders.fast.lanes import LANES
from setpredict.decoders.fast.products import TALL, add_transposed, multiply, pack


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-13)])
@pytest.mark.parametrize("rows", [1, 2, 6, 7, TALL, 2 * TALL + TALL // 2 + 1])
@pytest.mark.parametrize(("depth", "columns"), [(1, LANES), (19, 3 * LANES), (40, 2 * LANES)])
def test_products(rows, depth, columns, dtype, tolerance):
    random = np.random.default_rng(rows)
    a, b = random.standard_normal((rows, depth)).astype(dtype), random.standard_normal((depth, columns)).astype(dtype)
    start, out = random.standard_normal(columns).astype(dtype), np.zeros((rows, columns), dtype)
    multiply(a.reshape(-1), depth, pack(torch.from_numpy(b)).numpy().reshape(-1), start, out.reshape(-1), rows, columns)
    np.testing.assert_allclose(out, a @ b + start, rtol=tolerance, atol=10 * tolerance)

    before = out.copy()
    add_transposed(np.ascontiguousarray(a.T).reshape(-1), b.reshape(-1), out.reshape(-1), depth, rows, columns)
    np.testing.assert_allclose(out, before + a @ b, rtol=tolerance, atol=10 * tolerance)


def test_a_row_does_not_depend_on_the_other_rows():
    a, b = np.random.default_rng(0).standard_normal((2, 30, 2 * LANES)).astype(np.float32)
    packed, none = pack(torch.from_numpy(b)).numpy().reshape(-1), np.zeros(2 * LANES, np.float32)
    whole, one = np.empty((30, 2 * LANES), np.float32), np.empty(2 * LANES, np.float32)
    multiply(a[:, :30].reshape(-1), 30, packed, none, whole.reshape(-1), 30, 2 * LANES)
    for r in range(30):
        multiply(a[r, :30].copy(), 30, packed, none, one, 1, 2 * LANES)
        assert np.array_equal(one, whole[r])


def test_columns_are_padded_with_zeros():
    packed = pack(torch.ones(3, LANES + 1))
    assert packed.shape == (2, 3, LANES)
    assert packed.sum() == 3 * (LANES + 1)
