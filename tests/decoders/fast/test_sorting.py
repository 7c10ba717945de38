"""The bucket sort of the fast step against numpy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from setpredict.decoders.fast.sorting import BUCKETS, sort_row


def places(rows):
    result = np.empty(rows.shape, np.int32)
    n = rows.shape[1]
    room = np.empty((2, n), rows.dtype), np.empty((2, n), np.int32)
    buckets = np.empty(n, np.int32), np.empty(BUCKETS * n + 2, np.int32)
    for r, row in enumerate(rows):
        sort_row(-row, *room, *buckets)
        result[r] = room[1][0]
    return result


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 3, 100, 342])
def test_normal_numbers(n, dtype):
    rows = np.random.default_rng(n).standard_normal((20, n)).astype(dtype)
    assert np.array_equal(places(rows), np.argsort(-rows, axis=1, kind="stable"))


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float32, st.tuples(st.just(2), st.integers(1, 60)), elements=st.floats(-3, 3, width=32)))
def test_any_rows_with_ties(rows):
    assert np.array_equal(places(rows), np.argsort(-rows, axis=1, kind="stable"))


@pytest.mark.parametrize("outlier", [1e9, -1e30, np.inf, -np.inf, 3e38])
def test_outliers_that_squeeze_all_others_into_one_bucket(outlier):
    rows = np.random.default_rng(0).standard_normal((4, 200)).astype(np.float32)
    rows[:, 17] = outlier
    assert np.array_equal(places(rows), np.argsort(-rows, axis=1, kind="stable"))


def test_equal_values_stay_in_their_order():
    rows = np.repeat(np.array([[2.0, 2.0, 1.0, 1.0]], np.float32), 30, axis=0).reshape(2, 60)
    assert np.array_equal(places(rows), np.argsort(-rows, axis=1, kind="stable"))


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_nan_loses_no_place(share):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((50, 40)).astype(np.float32)
    rows[rng.random(rows.shape) < share] = np.nan
    assert np.array_equal(np.sort(places(rows), axis=1), np.tile(np.arange(40), (50, 1)))
