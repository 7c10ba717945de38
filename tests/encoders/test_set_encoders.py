"""Set encoders: invariance, the paper's sizes, masks in every role, and the relation network against plain pairs."""

import itertools

import pytest
import torch

from setpredict import UserError
from setpredict.encoders import DeepSetEncoder, RelationEncoder


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


KINDS = [DeepSetEncoder, RelationEncoder]
MASKS = ["feature", "weight", "filter"]
POOLS = ["fspool", "fspool-free", "sum", "mean", "max"]


@pytest.mark.parametrize(("kind", "pool", "mask"), list(itertools.product(KINDS, POOLS, MASKS)))
def test_order_does_not_matter(kind, pool, mask):
    encoder = kind(3, 16, 6, hidden=(8,), pool=pool, mask=mask, mask_sum=True).double()
    x, order = torch.randn(2, 6, 3, dtype=torch.float64), torch.randperm(6)
    m = torch.rand(2, 6) > 0.4
    if mask != "filter":
        m = torch.rand(2, 6, dtype=torch.float64)
    torch.testing.assert_close(encoder(x, m), encoder(x[:, order], m[:, order]), atol=1e-12, rtol=0)


def test_mnist_encoder_has_the_papers_size():
    encoder = DeepSetEncoder(features=2, latent=64, max_size=342)
    assert sum(p.numel() for p in encoder.parameters()) == 83_264 + 64 * 21


def test_deep_sets_is_its_formula():
    encoder = DeepSetEncoder(2, 5, 4, hidden=(7,), pool="sum")
    x, m = torch.randn(1, 4, 2), torch.rand(1, 4)
    plain = sum(encoder.network(torch.cat([x[0, i], m[0, i : i + 1]])) / 4 for i in range(4))
    torch.testing.assert_close(encoder(x, m)[0], plain)


@pytest.mark.parametrize("pool", POOLS)
def test_relation_network_is_its_formula(pool):
    encoder = RelationEncoder(2, 5, 3, hidden=(7, 6), pool=pool)
    x, m = torch.randn(2, 3, 2), torch.rand(2, 3)
    with_mask = torch.cat([x, m[..., None]], -1)
    pairs = [torch.cat([with_mask[:, i], with_mask[:, j]], -1) for i in range(3) for j in range(3)]
    plain = encoder.pool(torch.stack([encoder.network(p) / 9 for p in pairs], 1))
    torch.testing.assert_close(encoder(x, m), plain)


@pytest.mark.parametrize("kind", KINDS)
def test_hard_masks_remove_elements(kind):
    encoder = kind(2, 8, 5, hidden=(6,), mask="filter", normalize=False)
    x, m = torch.randn(1, 5, 2), torch.tensor([[True, False, True, False, False]])
    torch.testing.assert_close(encoder(x, m), encoder(x[:, [0, 2]], m[:, [0, 2]]))
    with pytest.raises(TypeError, match="soft mask has no gradient"):
        encoder(x, m.float())


def test_sum_of_masks_is_the_last_latent_number():
    encoder = DeepSetEncoder(2, 8, 5, mask="weight", mask_sum=True)
    m = torch.rand(3, 5)
    code = encoder(torch.randn(3, 5, 2), m)
    assert code.shape == (3, 8)
    torch.testing.assert_close(code[:, -1], 4 * m.mean(1))
    assert encoder(torch.randn(3, 5, 2), torch.zeros(3, 5))[:, :-1].eq(0).all()  # the mask is a factor, not an input


def test_a_fixed_size_encoder_takes_complete_sets_only():
    encoder = DeepSetEncoder(2, 8, 5, mask="none")
    encoder(torch.randn(1, 5, 2), torch.ones(1, 5, dtype=torch.bool))
    with pytest.raises(TypeError, match="fixed size"):
        encoder(torch.randn(1, 5, 2), torch.rand(1, 5))
    with pytest.raises(UserError, match="takes sets of exactly 5 elements, got one of 3"):
        encoder(torch.randn(1, 5, 2), torch.arange(5)[None] < 3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_empty_set_has_a_code(kind):
    encoder = kind(2, 8, 5, mask="filter")
    assert encoder(torch.zeros(2, 5, 2), torch.zeros(2, 5, dtype=torch.bool)).isfinite().all()
    assert encoder(torch.zeros(2, 0, 2), torch.zeros(2, 0, dtype=torch.bool)).isfinite().all()
