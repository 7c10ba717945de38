"""Our assignment solver against scipy's: the same total cost, for every size and mask."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from setpredict.core.errors import NotFinite
from setpredict.matching import assign


def check(costs, rows=None, columns=None):
    answer = assign(costs, rows, columns).numpy()
    P, N, M = costs.shape
    for p in range(P):
        r = np.arange(N) if rows is None else rows[p].nonzero()[:, 0].numpy()
        c = np.arange(M) if columns is None else columns[p].nonzero()[:, 0].numpy()
        matrix = costs[p].double().numpy()
        assert len(set(answer[p, c])) == len(c), f"problem {p} uses a row twice: {answer[p]}"
        assert set(answer[p, c]) <= set(r), f"problem {p} uses an absent row: {answer[p]}"
        assert set(answer[p, np.setdiff1d(np.arange(M), c)]) <= {-1}, f"problem {p}, columns {c}: {answer[p]}"
        best = matrix[np.ix_(r, c)][linear_sum_assignment(matrix[np.ix_(r, c)])].sum()
        assert matrix[answer[p, c], c].sum() == pytest.approx(best, rel=1e-9, abs=1e-12), f"problem {p}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [(1, 1), (3, 2), (10, 10), (40, 25), (60, 60)])
def test_random_costs(size, dtype):
    torch.manual_seed(0)
    check(torch.randn(8, *size, dtype=dtype))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(0, 3), st.integers(1, 4), st.integers(0, 10**6))
def test_ties_and_masks(M, more, values, seed):
    generator = torch.Generator().manual_seed(seed)
    N = M + more
    costs = torch.randint(-values, values + 1, (4, N, M), generator=generator).float()
    rows = torch.rand(4, N, generator=generator) < 0.8
    columns = torch.rand(4, M, generator=generator) < 0.7
    columns &= columns.cumsum(dim=1) <= rows.sum(dim=1, keepdim=True)
    check(costs)
    check(costs, rows, columns)


def test_all_equal_costs_of_a_large_set():
    check(torch.ones(2, 150, 150))


def test_several_threads():
    torch.manual_seed(0)
    costs = torch.rand(64, 30, 30)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        check(costs)
    finally:
        torch.set_num_threads(before)


def test_empty_problems():
    assert assign(torch.zeros(2, 3, 0)).shape == (2, 0)
    assert assign(torch.zeros(0, 3, 2)).shape == (0, 2)
    none = torch.zeros(1, 2, dtype=torch.bool)
    assert assign(torch.zeros(1, 2, 2), none, none).tolist() == [[-1, -1]]


def test_errors_name_the_problem():
    costs = torch.zeros(3, 2, 2)
    costs[1, 1, 0] = torch.inf
    with pytest.raises(NotFinite, match="cost matrix 1 holds inf at row 1, column 0"):
        assign(costs)
    with pytest.raises(ValueError, match="cost matrix 0 has 2 rows for 3 columns"):
        assign(torch.zeros(1, 2, 3))
    rows = torch.ones(2, 3, dtype=torch.bool)
    rows[1, 1:] = False
    with pytest.raises(ValueError, match="cost matrix 1 has 1 rows for 2 columns"):
        assign(torch.zeros(2, 3, 2), rows)


def test_costs_of_absent_rows_and_columns_may_be_anything():
    costs = torch.tensor([[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [float("nan"), float("inf"), float("nan")]]])
    rows, columns = torch.tensor([[True, True, False]]), torch.tensor([[True, True, False]])
    assert assign(costs, rows, columns).tolist() == [[0, 1, -1]]
    with pytest.raises(NotFinite):
        assign(costs, columns=columns)
