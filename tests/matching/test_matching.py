"""Pair costs, nearest neighbors and assignment against brute force."""

import itertools
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from setpredict import NotFinite
from setpredict.matching import PairCost, assign, nearest

COSTS = [
    PairCost(),
    PairCost("squared"),
    PairCost(weights=(1.0, 2.0, 0.5, 0.0, 3.0)),
    PairCost("huber", groups={"color": (1, 4)}),
    PairCost("squared", groups={"a": (0, 2), "b": (3, 5)}, weights=(1.0, 2.0, 0.5, 1.5, 3.0)),
]


def plain_cost(cost: PairCost, a: list[float], b: list[float]) -> float:
    """Number by number, from the definition."""
    weights = cost.weights or (1.0,) * len(a)
    grouped = {c for start, stop in (cost.groups or {}).values() for c in range(start, stop)}
    total = 0.0
    for c in range(len(a)):
        d = abs(a[c] - b[c])
        if c not in grouped:
            total += weights[c] * (d * d / 2 if cost.kind == "squared" or d < 1 else d - 0.5)
    for start, stop in (cost.groups or {}).values():
        normalizer = np.log(np.sum(np.exp(a[start:stop])))
        total -= sum(weights[c] * b[c] * (a[c] - normalizer) for c in range(start, stop))
    return total / len(a)


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("kinds", [(torch.bfloat16, torch.float32), (torch.float32, torch.float64)])
def test_costs_of_mixed_precision_are_in_the_higher_one(cost, kinds):
    a, b = torch.randn(2, 4, 5).to(kinds[0]), torch.randn(2, 3, 5).to(kinds[1])
    for first, second in ((a, b), (b, a)):
        found = cost.matrix(first, second)
        assert found.dtype == kinds[1]
        torch.testing.assert_close(found, cost.matrix(first.to(kinds[1]), second.to(kinds[1])))


@pytest.mark.parametrize("cost", COSTS)
def test_costs_equal_their_definition(cost):
    torch.manual_seed(0)
    a, b = 2 * torch.randn(2, 4, 5, dtype=torch.float64), torch.randn(2, 3, 5, dtype=torch.float64)
    matrix = cost.matrix(a, b)
    for p, i, j in itertools.product(range(2), range(4), range(3)):
        expected = plain_cost(cost, a[p, i].tolist(), b[p, j].tolist())
        assert matrix[p, i, j].item() == pytest.approx(expected, abs=1e-12), (p, i, j)
        assert cost.paired(a[p, i], b[p, j]).item() == pytest.approx(expected, abs=1e-12), (p, i, j)


def test_bad_costs_are_named():
    with pytest.raises(ValueError, match="groups 'a' and 'b' overlap at feature 2"):
        PairCost(groups={"a": (0, 3), "b": (2, 4)})
    with pytest.raises(ValueError, match="range"):
        PairCost(groups={"a": (3, 3)})
    with pytest.raises(ValueError, match="2 feature weights for elements with 3"):
        PairCost(weights=(1.0, 1.0)).paired(torch.zeros(1, 3), torch.zeros(1, 3))
    with pytest.raises(ValueError, match="'a' ends at feature 9"):
        PairCost(groups={"a": (0, 9)}).matrix(torch.zeros(1, 1, 3), torch.zeros(1, 1, 3))


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("masked", [False, True])
def test_nearest_is_the_cheapest_present(cost, masked):
    torch.manual_seed(1)
    a, b = 2 * torch.randn(6, 7, 5), 2 * torch.randn(6, 9, 5)
    keep_a = torch.rand(6, 7) > 0.3 if masked else torch.ones(6, 7, dtype=torch.bool)
    keep_b = torch.rand(6, 9) > 0.3 if masked else torch.ones(6, 9, dtype=torch.bool)
    to_b, to_a = nearest(a, b, cost, keep_a if masked else None, keep_b if masked else None)
    matrix = cost.matrix(a, b)
    best = matrix.masked_fill(~keep_b[:, None], torch.inf).amin(2)  # costs are compared: ties have any index
    torch.testing.assert_close(matrix.gather(2, to_b[..., None])[..., 0], best)
    best = matrix.masked_fill(~keep_a[..., None], torch.inf).amin(1)
    torch.testing.assert_close(matrix.gather(1, to_a[:, None])[:, 0], best)


def test_nearest_in_small_chunks_is_the_same(monkeypatch):
    g = torch.Generator().manual_seed(0)
    a, b = torch.randn(5, 6, 2, generator=g), torch.randn(5, 4, 2, generator=g)
    weighted = PairCost(weights=(1.0, 1.0))  # no kernel has weights
    at_once = nearest(a, b, weighted)
    monkeypatch.setattr(import_module("setpredict.matching.nearest"), "CHUNK", 7)
    chunked = nearest(a, b, weighted)
    assert [x.tolist() for x in chunked] == [x.tolist() for x in at_once]


def test_nearest_of_nothing():
    g = torch.Generator().manual_seed(0)
    a, b, none = torch.randn(2, 4, 2, generator=g), torch.randn(2, 3, 2, generator=g), torch.zeros(2, 3).bool()
    to_b, to_a = nearest(a, b, PairCost(), None, none)
    assert to_b.tolist() == [[0] * 4] * 2
    assert to_a.tolist() == nearest(a, b, PairCost())[1].tolist()  # absent elements look for their nearest, too
    to_b, to_a = nearest(a, b[:, :0], PairCost())
    assert to_b.shape == (2, 4)
    assert to_a.shape == (2, 0)


@given(rows=st.integers(1, 5), columns=st.integers(0, 5), seed=st.integers(0, 999), ties=st.booleans())
def test_assignment_costs_what_the_best_injection_costs(rows, columns, seed, ties):
    torch.manual_seed(seed)
    costs = torch.rand(2, rows, columns, dtype=torch.float64)
    if ties:
        costs = (costs * 3).round()
    if columns > rows:
        with pytest.raises(ValueError, match=f"{rows} rows for {columns} columns"):
            assign(costs)
        return
    got = assign(costs)
    for p in range(2):
        choices = itertools.permutations(range(rows), columns)
        best = min(sum(costs[p, r, c].item() for c, r in enumerate(choice)) for choice in choices)
        assert len(set(got[p].tolist())) == columns, f"problem {p} uses a row twice: {got[p]}"
        total = sum(costs[p, r, c].item() for c, r in enumerate(got[p].tolist()))
        assert total == pytest.approx(best), f"problem {p}"


@pytest.mark.parametrize("size", [1, 10, 40, 130])
def test_assignment_agrees_with_scipy_on_larger_problems(size):
    costs = torch.rand(3, size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(size))
    for matrix, rows in zip(costs, assign(costs)):
        assert sorted(rows.tolist()) == list(range(size))
        r, c = linear_sum_assignment(matrix.numpy())
        assert matrix[rows, torch.arange(size)].sum().item() == pytest.approx(matrix.numpy()[r, c].sum())


def test_masked_assignment_uses_only_what_is_present():
    torch.manual_seed(0)
    costs = torch.rand(4, 5, 5)
    rows = torch.tensor([[True] * 5, [False, True, True, True, False], [True] * 5, [True, False, False, False, False]])
    columns = [[True, False, True, False, True], [True, True, False, False, True], [False] * 5, [False] * 5]
    columns = torch.tensor(columns)
    got = assign(costs, rows, columns)
    for p in range(4):
        assert set(got[p][~columns[p]].tolist()) <= {-1}, f"problem {p}: {got[p]}"
        used = got[p][columns[p]]
        assert set(used.tolist()) <= set(rows[p].nonzero()[:, 0].tolist()), f"problem {p} uses an absent row"
        assert len(used.unique()) == len(used), f"problem {p} uses a row twice: {used}"
        small = costs[p][rows[p]][:, columns[p]].numpy()
        r, c = linear_sum_assignment(small)
        assert costs[p][used, columns[p].nonzero()[:, 0]].sum().item() == pytest.approx(float(small[r, c].sum())), p
    with pytest.raises(ValueError, match="cost matrix 0 has 2 rows for 3 columns"):
        assign(costs[:1], torch.tensor([[True, True, False, False, False]]), columns[:1])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_bad_cost_matrices_are_named(value):
    costs = torch.zeros(3, 4, 4)
    costs[1, 2, 3] = value
    with pytest.raises(NotFinite, match=r"cost matrix 1 holds .* at row 2, column 3"):
        assign(costs)


def test_masks_and_weights_that_do_not_fit_are_errors():
    plain = "import torch; from setpredict.matching import assign; assign(torch.rand(2, 3, 2), torch.ones(1, 3).bool())"
    seen = subprocess.run([sys.executable, "-c", plain], capture_output=True, text=True)  # without checks of types
    assert "ValueError: rows must have shape (2, 3), got (1, 3)" in seen.stderr
    with pytest.raises(ValueError, match="weights must be 0 or more"):
        PairCost(weights=(1.0, -1.0))
