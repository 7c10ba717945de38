"""The pooling kernels of the fast step, for few and for many elements, against torch operations."""

import pytest
import torch

from setpredict.decoders.fast import pool as pooling
from setpredict.decoders.fast.small_pool_kernels import LANES, MOST

SIZES = [1, 2, 3, 6, MOST, MOST + 1]
CHANNELS = [1, LANES - 1, LANES, 2 * LANES + 3]


def by_torch(monkeypatch, function, *arguments):
    with monkeypatch.context() as patch:
        patch.setattr(pooling, "has_kernel", lambda x: False)
        return function(*arguments)


def assert_same(ours, oracle, tolerance):
    for name, a, b in zip(ours._fields, ours, oracle):
        assert (a is None) == (b is None), name
        if a is not None:
            message = f"{name} differs"
            torch.testing.assert_close(
                a.double(), b.double(), atol=tolerance, rtol=tolerance, msg=lambda m, t=message: f"{t}: {m}"
            )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-11)])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("C", CHANNELS)
@pytest.mark.parametrize("N", SIZES)
def test_pooling_and_its_derivatives(monkeypatch, N, C, ties, dtype, tolerance):
    torch.manual_seed(N)
    x, tangent = torch.randn(2, 3, N, C, dtype=dtype)
    x = x.round() if ties else x  # equal values keep their order
    weights = torch.randn(C, N, dtype=dtype)
    slope, second = torch.randn(2, 3, C, dtype=dtype)
    loss_grad = torch.randn(3, dtype=dtype)
    for descending in (False, True):
        ours = pooling.pool(x, weights, descending, True)
        assert_same(ours, by_torch(monkeypatch, pooling.pool, x, weights, descending, True), tolerance)
        given = tangent, ours.ranks, weights, slope, second, loss_grad
        for own, shared in ((x, False), (None, False), (None, True)):
            back = pooling.pool_backward(own, *given, shared)
            assert_same(back, by_torch(monkeypatch, pooling.pool_backward, own, *given, shared), tolerance)


def test_ranks_are_not_kept_unless_asked_for():
    x, weights = torch.randn(3, 6, 5), torch.randn(5, 6)
    kept, bare = (pooling.pool(x, weights, True, keep) for keep in (True, False))
    assert len(bare.ranks) == 0
    assert torch.equal(kept.code, bare.code)
    assert torch.equal(kept.weights, bare.weights)


@pytest.mark.parametrize("N", [6, MOST + 1])
def test_nan_stays_in_its_sample(N):
    x, weights = torch.randn(3, N, 70), torch.randn(70, N)
    clean = pooling.pool(x, weights, True, True)
    x[1, 2] = torch.nan
    found = pooling.pool(x, weights, True, True)
    assert torch.isnan(found.code[1]).all()
    assert int(found.ranks.max()) < N
    for s in (0, 2):
        assert torch.equal(found.code[s], clean.code[s])
        assert torch.equal(found.ranks[s], clean.ranks[s])
