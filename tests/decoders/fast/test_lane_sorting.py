"""The sorting network of the fast step against numpy's stable sort, and its vectors against numpy."""

from typing import no_type_check

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from setpredict.decoders.fast import lanes
from setpredict.decoders.fast.lane_sorting import order, row_capacity
from setpredict.decoders.fast.lanes import LANES
from setpredict.decoders.fast.sorting import insert, merge


def indices(keys):
    """The index of the number of every rank, lane by lane: keys (n, LANES)."""
    n = len(keys)
    rows = np.full(row_capacity(n) * LANES, -1, np.int32)
    size = max(n, LANES)
    mask = order(
        np.ascontiguousarray(keys).reshape(-1), n, rows, np.empty((2, size), keys.dtype), np.empty((3, size), np.int32)
    )
    return rows.reshape(-1, LANES)[:n] & mask


def assert_sorted(keys):
    assert np.array_equal(indices(keys), np.argsort(keys, axis=0, kind="stable"))


def normal(n, dtype=np.float32):
    return np.random.default_rng(n).standard_normal((n, LANES)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [*range(1, 20), 31, 32, 33, 36, 64, 100, 128, 129, 256, 257, 342, 600, 1030])
def test_normal_numbers(n, dtype):
    assert_sorted(normal(n, dtype))


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float32, st.tuples(st.integers(1, 60), st.just(LANES)), elements=st.floats(-3, 3, width=32)))
def test_any_rows_with_ties(keys):
    assert_sorted(keys)


@pytest.mark.parametrize("outlier", [1e9, -1e30, np.inf, -np.inf, 3e38])
def test_outliers_that_squeeze_all_others_into_one_place(outlier):
    keys = normal(200)
    keys[17] = outlier
    assert_sorted(keys)


@pytest.mark.parametrize("n", [5, 70])
def test_numbers_that_differ_in_their_last_bits_only(n):
    assert_sorted(np.float32(1000) + np.float32(1e-4) * normal(n))
    assert_sorted(np.float32(1e-42) * normal(n))


def test_equal_numbers_stay_in_their_order():
    assert_sorted(np.repeat([[2.0], [2.0], [1.0], [1.0]] * 15, LANES, axis=1).astype(np.float32))
    assert_sorted(np.zeros((40, LANES), np.float32))
    zeros = np.where(np.random.default_rng(0).random((40, LANES)) < 0.5, np.float32(0), np.float32(-0.0))
    assert_sorted(zeros)


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_nan_loses_no_index_and_disturbs_no_other_lane(share):
    clean = normal(40)
    keys = clean.copy()
    keys[np.random.default_rng(0).random(40) < share, ::2] = np.nan
    found = indices(keys)
    assert np.array_equal(np.sort(found, axis=0), np.tile(np.arange(40)[:, None], LANES))
    assert np.array_equal(found[:, 1::2], indices(clean)[:, 1::2])


def test_insertion_gives_up_on_a_reversed_row_and_merging_finishes_it():
    values, sources = np.empty((2, 100), np.float32), np.empty((2, 100), np.int32)
    values[0], sources[0] = np.arange(100)[::-1], np.arange(100)
    assert not insert(values[0], sources[0], 100)
    merge(values, sources, 100)
    assert np.array_equal(values[0], np.arange(100))
    assert np.array_equal(sources[0], np.arange(100)[::-1])


@numba.njit
@no_type_check
def arithmetic(a, b, out):
    x, y = lanes.load(a, 0), lanes.load(b, 0)
    lanes.store(out, 0, (x + y) * x - y / x)
    lanes.store(out, LANES, lanes.smaller(x, y))
    lanes.store(out, 2 * LANES, lanes.larger(x, y))
    lanes.store(out, 3 * LANES, lanes.zero_unless_less(x, y, x))
    return lanes.total(x)


@numba.njit
@no_type_check
def by_index(values, rows, out):
    lanes.store(out, 0, lanes.gather(values, 0, rows, LANES, -1))
    lanes.scatter(out, LANES, rows, LANES, 7, values, 0)
    lanes.add_scattered(out, LANES, rows, LANES, 7, lanes.load(values, LANES))
    lanes.scatter_one(out, 4 * LANES, rows, LANES, 7, 5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors(dtype):
    a, b = normal(2, dtype)
    out = np.empty(4 * LANES, dtype)
    assert arithmetic(a, b, out) == pytest.approx(a.sum(), rel=1e-5)
    expected = [(a + b) * a - b / a, np.minimum(a, b), np.maximum(a, b), np.where(a < b, a, 0)]
    assert np.allclose(out.reshape(4, LANES), expected, rtol=1e-5)

    values, rows = normal(3, dtype), np.random.default_rng(0).integers(0, 3, 2 * LANES).astype(np.int32)
    out = np.zeros((7, LANES), dtype)
    by_index(values.reshape(-1), rows, out.reshape(-1))
    rows, lane = rows[LANES:], np.arange(LANES)
    assert np.array_equal(out[0], values[rows, lane])
    assert np.array_equal(out[1 + rows, lane], values[0] + values[1])
    assert np.array_equal(out[4 + rows, lane], np.full(LANES, 5))
    assert np.count_nonzero(out[1:4]) == np.count_nonzero(out[4:]) == LANES
