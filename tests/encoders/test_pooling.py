"""FSPool and its simpler relatives: against a plain loop, on fixed and variable sizes, at the edges."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from setpredict.encoders import FSPool, MaxPool, MeanPool, SumPool, make_pool


def plain_fspool(pool: FSPool, x: torch.Tensor) -> torch.Tensor:
    """One set (n, C), feature by feature and rank by rank, from the text of the paper."""
    n, C = x.shape
    out = torch.zeros(C, dtype=x.dtype)
    for c in range(C):
        values = sorted(x[:, c].tolist(), reverse=pool.descending)
        for rank, value in enumerate(values):
            if pool.size is not None:
                weight = pool.weight[c, rank].item()
            else:
                place = rank / (n - 1) * pool.pieces if n > 1 else 0.0
                left = min(int(place), pool.pieces - 1)
                part = place - left
                weight = (1 - part) * pool.weight[c, left].item() + part * pool.weight[c, left + 1].item()
            out[c] += weight * value
    return out


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_ranks_of_large_sets_are_exact_in_half_precision(dtype):
    pool = FSPool(4).to(dtype)
    expected = FSPool(4)
    expected.load_state_dict({name: value.float() for name, value in pool.state_dict().items()})
    torch.testing.assert_close(pool.rank_weights(342).float(), expected.rank_weights(342), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("options", [{}, {"pieces": 3}, {"size": 7, "descending": False}, {"pieces": 1}])
@given(n=st.integers(0, 7), seed=st.integers(0, 99))
def test_fspool_is_its_formula_on_every_size(options, n, seed):
    torch.manual_seed(seed)
    pool = FSPool(4, **options).double()
    x = torch.randn(3, 7, 4, dtype=torch.float64)
    mask = (torch.arange(7) < n).expand(3, 7)[:, torch.randperm(7)]
    got = pool(x, mask)
    for b in range(3):
        torch.testing.assert_close(got[b], plain_fspool(pool, x[b, mask[b]]))


@pytest.mark.parametrize("options", [{}, {"size": 6}])
def test_fixed_size_equals_a_full_mask(options):
    pool, x = FSPool(5, **options), torch.randn(2, 6, 5)
    torch.testing.assert_close(pool(x), pool(x, torch.ones(2, 6, dtype=torch.bool)))


@pytest.mark.parametrize("kind", ["fspool", "fspool-free", "sum", "mean", "max"])
def test_padding_is_not_seen(kind):
    pool = make_pool(kind, 4, 8)
    x, mask = torch.randn(2, 8, 4), torch.zeros(2, 8, dtype=torch.bool)
    mask[0, :3] = True  # the second set is empty
    other = torch.where(mask[..., None], x, torch.full_like(x, 1e6))
    torch.testing.assert_close(pool(x, mask), pool(other, mask))
    torch.testing.assert_close(pool(x, mask)[0], pool(x[:1, :3])[0])
    assert pool(x, mask)[1].eq(0).all()


def test_simple_pools_are_their_formulas():
    x, mask = torch.randn(1, 5, 3), torch.tensor([[True, False, True, True, False]])
    kept = x[0, mask[0]]
    torch.testing.assert_close(SumPool()(x, mask)[0], kept.sum(0))
    torch.testing.assert_close(MeanPool()(x, mask)[0], kept.mean(0))
    torch.testing.assert_close(MaxPool()(x, mask)[0], kept.max(0).values)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("options", [{"pieces": 4}, {"size": 5}])
def test_fspool_gradients_match_finite_differences(options, masked):
    torch.manual_seed(0)
    pool = FSPool(3, **options).double()
    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True, False, True, False], [True] * 5]) if masked else None

    def run(x, weight):
        return torch.func.functional_call(pool, {"weight": weight}, (x, mask))

    assert torch.autograd.gradcheck(run, (x, pool.weight))
    assert torch.autograd.gradgradcheck(run, (x, pool.weight))


def test_too_many_ranks_and_unknown_pools_are_refused():
    with pytest.raises(ValueError, match="weights for 3 elements, got a set of 4"):
        FSPool(2, size=3)(torch.zeros(1, 4, 2))
    with pytest.raises(ValueError, match="at least one piece"):
        FSPool(2, pieces=0)
