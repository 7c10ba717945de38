"""The pooling kernels of the fast step, for few and for many elements, against torch operations."""

import pytest
import torch

from setpredict.decoders.fast import pool as pooling
from setpredict.decoders.fast.lanes import LANES
from setpredict.decoders.fast.pool import RankWeights

SIZES = [1, 2, 3, 6, 36, 65, 260]
CHANNELS = [1, LANES - 1, LANES, 2 * LANES + 3]


def assert_same(ours, oracle, tolerance):
    for name, a, b in zip(ours._fields, ours, oracle):
        assert (a is None) == (b is None), name
        if a is not None:
            message = f"{name} differs"
            torch.testing.assert_close(
                a.double(), b.double(), atol=tolerance, rtol=tolerance, msg=lambda m, t=message: f"{t}: {m}"
            )


def random_weights(N, C, dtype=torch.float32):
    """The same weights for the kernels and for torch operations."""
    values = torch.randn(N, C, dtype=dtype)
    return RankWeights.of(values), RankWeights(values, None)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-11)])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("C", CHANNELS)
@pytest.mark.parametrize("N", SIZES)
def test_pooling_and_its_derivatives(N, C, ties, dtype, tolerance):
    torch.manual_seed(N)
    x, tangent = torch.randn(2, 3, N, C, dtype=dtype)
    x = x.round() if ties else x  # equal values keep their order
    weights, plain = random_weights(N, C, dtype)
    slope, second, z = torch.randn(3, 3, C, dtype=dtype)
    loss_grad = torch.randn(3, dtype=dtype)
    for descending in (False, True):
        ours, oracle = (pooling.pool(x, w, descending, True) for w in (weights, plain))
        assert_same(ours, oracle, tolerance)
        for kind in ("huber", "squared"):
            found = [
                pooling.pool_and_loss(x, z, w, kind, descending, True, torch.empty_like(x)) for w in (weights, plain)
            ]
            assert_same(found[0], found[1], tolerance)
        for own, shared in ((x, False), (None, False), (None, True)):
            given = slope, second, loss_grad, shared
            back = [
                pooling.pool_backward(own, tangent, ranks, w, *given, torch.empty_like(x), torch.empty_like(x))
                for w, ranks in ((weights, ours.ranks), (plain, oracle.ranks))
            ]
            assert_same(back[0], back[1], tolerance)


def test_derivatives_of_the_loss_are_those_of_autograd():
    x, z = torch.randn(3, 7, 20, dtype=torch.float64), torch.randn(3, 20, dtype=torch.float64)
    weights, _ = random_weights(7, 20, torch.float64)
    for kind in ("huber", "squared"):
        given = x.clone().requires_grad_()
        code = (given.sort(dim=1, descending=True).values * weights.values).sum(dim=1)
        d = code - z
        h = torch.where(d.abs() < 1, d**2 / 2, d.abs() - 0.5) if kind == "huber" else d**2 / 2
        loss = h.mean(dim=1)
        found = pooling.pool_and_loss(x, z, weights, kind, True, True, torch.empty_like(x))
        torch.testing.assert_close(found.loss, loss)
        torch.testing.assert_close(found.cotangent, torch.autograd.grad(loss.sum(), given)[0])


def test_ranks_are_not_kept_unless_asked_for():
    x, (weights, _) = torch.randn(3, 6, 5), random_weights(6, 5)
    kept, bare = (pooling.pool(x, weights, True, keep) for keep in (True, False))
    assert len(bare.ranks) == 0
    assert torch.equal(kept.code, bare.code)
    assert torch.equal(kept.weights, bare.weights)


@pytest.mark.parametrize("N", [6, 65])
def test_nan_stays_in_its_sample(N):
    x, z, (weights, _) = torch.randn(3, N, 70), torch.randn(3, 70), random_weights(N, 70)
    clean = pooling.pool_and_loss(x, z, weights, "huber", True, True, torch.empty_like(x))
    x[1, 2] = torch.nan
    found = pooling.pool_and_loss(x, z, weights, "huber", True, True, torch.empty_like(x))
    assert torch.isnan(found.loss[1])
    assert torch.isnan(found.cotangent[1]).all()
    assert int(found.ranks.max()) < N
    for s in (0, 2):
        assert torch.equal(found.loss[s], clean.loss[s])
        assert torch.equal(found.cotangent[s], clean.cotangent[s])
        assert torch.equal(found.ranks[s], clean.ranks[s])
