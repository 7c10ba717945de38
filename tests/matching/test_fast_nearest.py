"""The CPU kernels of nearest neighbors and pair costs against the torch path: costs are compared, not indices."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from setpredict.matching import PairCost, nearest

# Weights of 1 change no cost but select the torch path, which is the oracle.
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
def test_costs_equal_those_of_the_torch_path(N, M, C, kind, dtype, masked):
    torch.manual_seed(N)
    a, b = 2 * torch.randn(6, N, C, dtype=dtype), 2 * torch.randn(6, M, C, dtype=dtype)
    present = torch.rand(6, N) < 0.7, torch.rand(6, M) < 0.7
    present[0][:, 0] = present[1][:, 0] = True
    masks = present if masked else (None, None)
    ours, oracle = nearest(a, b, PLAIN[kind], *masks), nearest(a, b, weighted(kind, C), *masks)
    torch.testing.assert_close(cost_of(PLAIN[kind], a, b, ours[0]), cost_of(PLAIN[kind], a, b, oracle[0]))
    torch.testing.assert_close(cost_of(PLAIN[kind], b, a, ours[1]), cost_of(PLAIN[kind], b, a, oracle[1]))
    if masked:
        for mask, index in ((present[1], ours[0]), (present[0], ours[1])):
            absent = (~mask.gather(1, index)).nonzero().tolist()
            assert not absent, f"absent elements were chosen at {absent}"


def test_equally_near_ones_give_the_first():
    a, b = torch.zeros(2, 4, 3), torch.ones(2, 5, 3)
    to_b, to_a = nearest(a, b, PairCost())
    assert to_b.tolist() == [[0] * 4] * 2
    assert to_a.tolist() == [[0] * 5] * 2


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 3e38])
def test_indices_stay_in_range_whatever_the_values(value):
    g = torch.Generator().manual_seed(0)
    a, b = torch.rand(3, 4, 3, generator=g), torch.rand(3, 6, 3, generator=g)
    a[1], b[2, 3] = value, value
    to_b, to_a = nearest(a, b, PairCost())
    assert set(to_b.flatten().tolist()) <= set(range(6))
    assert set(to_a.flatten().tolist()) <= set(range(4))
    none = torch.zeros(3, 4, dtype=torch.bool)
    assert nearest(a, b, PairCost(), none, None)[1].tolist() == [[0] * 6] * 3


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
    contiguous = nearest(a.contiguous(), b.contiguous(), PairCost())
    for direction in range(2):
        assert one[direction].tolist() == four[direction].tolist()
        assert one[direction].tolist() == contiguous[direction].tolist()


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 6), st.integers(1, 6), st.integers(1, 5), st.sampled_from(["huber", "squared"]), st.integers(0, 99)
)
def test_matrix_equals_the_torch_matrix(N, M, C, kind, seed):
    g = torch.Generator().manual_seed(seed)
    a, b = 2 * torch.randn(3, N, C, generator=g), 2 * torch.randn(3, M, C, generator=g)
    with torch.no_grad():
        ours = PairCost(kind).matrix(a, b)
    torch.testing.assert_close(ours, PairCost(kind).matrix(a.requires_grad_(), b).detach())


@pytest.mark.parametrize("kind", ["huber", "squared"])
def test_matrix_without_gradients_keeps_a_nan(kind):
    g = torch.Generator().manual_seed(0)
    a, b = torch.rand(1, 2, 3, generator=g), torch.rand(1, 4, 3, generator=g)
    a[0, 1, 2] = torch.nan
    with torch.no_grad():
        matrix = PairCost(kind).matrix(a, b)
    assert matrix.isnan().tolist() == [[[False] * 4, [True] * 4]]
