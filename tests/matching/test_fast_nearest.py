"""The CPU kernels of nearest neighbors and pair costs against the torch path: costs are compared, not indices."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from setpredict.matching import PairCost, nearest

# Weights of 1 change no cost but take the torch path, which is the oracle.
PLAIN = {kind: PairCost(kind) for kind in ("huber", "squared")}


def weighted(kind, C):
    return PairCost(kind, weights=(1.0,) * C)


def cost_of(cost, a, b, index):
    chosen = b.gather(1, index[..., None].expand(*index.shape, b.shape[2]))
    return cost.paired(a, chosen)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["huber", "squared"])
@pytest.mark.parametrize(("N", "M", "C"), [(1, 1, 1), (5, 9, 2), (40, 33, 3), (17, 17, 4), (10, 10, 19)])
@pytest.mark.parametrize("masked", [False, True])
def test_costs_are_those_of_the_torch_path(N, M, C, kind, dtype, masked):
    torch.manual_seed(N)
    a, b = 2 * torch.randn(6, N, C, dtype=dtype), 2 * torch.randn(6, M, C, dtype=dtype)
    here = torch.rand(6, N) < 0.7, torch.rand(6, M) < 0.7
    here[0][:, 0] = here[1][:, 0] = True
    masks = here if masked else (None, None)
    ours, oracle = nearest(a, b, PLAIN[kind], *masks), nearest(a, b, weighted(kind, C), *masks)
    torch.testing.assert_close(cost_of(PLAIN[kind], a, b, ours[0]), cost_of(PLAIN[kind], a, b, oracle[0]))
    torch.testing.assert_close(cost_of(PLAIN[kind], b, a, ours[1]), cost_of(PLAIN[kind], b, a, oracle[1]))
    if masked:
        assert here[1].gather(1, ours[0]).all()
        assert here[0].gather(1, ours[1]).all()


def test_equally_near_ones_give_the_first():
    a, b = torch.zeros(2, 4, 3), torch.ones(2, 5, 3)
    to_b, to_a = nearest(a, b, PairCost())
    assert to_b.eq(0).all()
    assert to_a.eq(0).all()


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 3e38])
def test_indices_stay_in_range_whatever_the_values(value):
    a, b = torch.rand(3, 4, 3), torch.rand(3, 6, 3)
    a[1], b[2, 3] = value, value
    to_b, to_a = nearest(a, b, PairCost())
    assert ((to_b >= 0) & (to_b < 6)).all()
    assert ((to_a >= 0) & (to_a < 4)).all()
    none = torch.zeros(3, 4, dtype=torch.bool)
    assert nearest(a, b, PairCost(), none, None)[1].eq(0).all()


def test_strided_input_and_many_threads():
    torch.manual_seed(0)
    a, b = torch.randn(7, 3, 11).transpose(1, 2), torch.randn(7, 12, 6)[:, ::2, ::2]
    one = nearest(a, b, PairCost())
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        four = nearest(a, b, PairCost())
    finally:
        torch.set_num_threads(before)
    assert torch.equal(one[0], four[0])
    assert torch.equal(one[1], four[1])
    assert torch.equal(one[0], nearest(a.contiguous(), b.contiguous(), PairCost())[0])


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 5), st.sampled_from(["huber", "squared"]))
def test_matrix_is_the_torch_matrix(N, M, C, kind):
    a, b = 2 * torch.randn(3, N, C), 2 * torch.randn(3, M, C)
    with torch.no_grad():
        ours = PairCost(kind).matrix(a, b)
    torch.testing.assert_close(ours, PairCost(kind).matrix(a.requires_grad_(), b).detach())


def test_matrix_without_gradients_still_shows_a_nan():
    a = torch.rand(1, 2, 3)
    a[0, 1, 2] = torch.nan
    with torch.no_grad():
        matrix = PairCost().matrix(a, torch.rand(1, 4, 3))
    assert torch.isnan(matrix[0, 1]).all()
    assert torch.isfinite(matrix[0, 0]).all()
