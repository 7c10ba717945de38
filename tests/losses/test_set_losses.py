"""Chamfer and Hungarian losses: brute force, the paper's remark, order, gradients and edge cases."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from setpredict import NotFinite, PairCost, Sets, chamfer_loss, hungarian_loss
from setpredict.core.errors import UserError

LOSSES = [chamfer_loss, hungarian_loss]


def some_sets(seed: int, B: int = 3, N: int = 5, D: int = 2, soft: bool = False) -> Sets:
    generator = torch.Generator().manual_seed(seed)
    elements = 1.5 * torch.randn(B, N, D, generator=generator, dtype=torch.float64)
    mask = torch.rand(B, N, generator=generator, dtype=torch.float64)
    if soft:
        return Sets(elements, mask)
    mask = mask > 0.4
    return Sets(elements * mask[..., None], mask)


def huber(a, b):
    d = (a - b).abs()
    return torch.where(d < 1, d * d / 2, d - 0.5).mean(-1)


@given(n=st.integers(1, 6), seed=st.integers(0, 999))
def test_hungarian_is_the_best_of_all_permutations(n, seed):
    a, b = some_sets(seed, 2, n, soft=True), some_sets(seed + 1, 2, n)
    got = hungarian_loss(a, b)
    for i in range(2):
        x, y = a.features_with_mask[i], b.features_with_mask[i]
        best = min(huber(x[list(order)], y).mean().item() for order in itertools.permutations(range(n)))
        assert got[i].item() == pytest.approx(best), f"sample {i}"


@given(seed=st.integers(0, 999))
def test_filtered_hungarian_matches_only_present_elements(seed):
    a, b = some_sets(seed, 2, 5, soft=True), some_sets(seed + 1, 2, 5)
    got = hungarian_loss(a, b, masks="filter", mask_weight=0)
    for i in range(2):
        targets = b.to_list()[i]
        choices = itertools.permutations(range(5), len(targets))
        best = min((huber(a.elements[i, list(c)], targets).mean().item() for c in choices if c), default=0.0)
        assert got[i].item() == pytest.approx(best), f"sample {i}"


def test_filtered_hungarian_trains_the_masks():
    a = Sets(torch.tensor([[[0.0], [5.0], [1.0]]]), torch.tensor([[0.9, 0.3, 0.2]]))
    b = Sets.from_list([[[0.0], [1.0]]])
    got = hungarian_loss(a, b, masks="filter", mask_weight=2.0)
    expected = 2 * ((0.1**2 + 0.3**2 + 0.8**2) / 2) / 3  # matched to 1, unmatched to 0
    assert got.item() == pytest.approx(expected)


@given(seed=st.integers(0, 999), masks=st.sampled_from(["feature", "filter"]))
def test_chamfer_equals_its_definition(seed, masks):
    a, b = some_sets(seed, 2, 4, soft=True), some_sets(seed + 1, 2, 4)
    got = chamfer_loss(a, b, masks=masks)
    for i in range(2):
        x, y = a.features_with_mask[i], b.features_with_mask[i]
        if masks == "filter":
            x, y = a.elements[i], b.to_list()[i]
        if len(y) == 0:
            assert got[i].item() == 0, f"sample {i}"
            continue
        pairs = huber(x[:, None], y[None])
        assert got[i].item() == pytest.approx((pairs.amin(1).mean() + pairs.amin(0).mean()).item()), f"sample {i}"


def test_the_papers_remark_on_multisets():
    aab, abb = (
        Sets.from_list([[[0.0, 0.0], [0.0, 0.0], [1.0, 2.0]]]),
        Sets.from_list([[[0.0, 0.0], [1.0, 2.0], [1.0, 2.0]]]),
    )
    for masks in ("feature", "filter"):
        assert chamfer_loss(aab, abb, masks=masks).item() == 0, masks
        assert hungarian_loss(aab, abb, masks=masks).item() > 0.1, masks


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("masks", ["feature", "filter"])
@given(seed=st.integers(0, 999))
def test_order_does_not_matter(loss, masks, seed):
    a, b = some_sets(seed, soft=True), some_sets(seed + 1)
    generator = torch.Generator().manual_seed(seed)
    shuffle = [torch.stack([torch.randperm(5, generator=generator) for _ in range(3)]) for _ in range(2)]
    moved = loss(a.permute(shuffle[0]), b.permute(shuffle[1]), masks=masks)
    torch.testing.assert_close(moved, loss(a, b, masks=masks), atol=1e-12, rtol=0)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("masks", ["feature", "filter"])
@pytest.mark.parametrize("cost", ["huber", "squared", PairCost(groups={"g": (0, 2)})])
def test_gradients_match_finite_differences(loss, masks, cost):
    a, b = some_sets(3, 2, 4, soft=True), some_sets(5, 2, 4)
    elements, mask = a.elements.requires_grad_(), a.mask.requires_grad_()
    assert torch.autograd.gradcheck(lambda e, m: loss(Sets(e, m), b, cost=cost, masks=masks), (elements, mask))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("masks", ["feature", "filter"])
def test_a_batch_equals_its_samples(loss, masks):
    a, b = some_sets(0, 4, soft=True), some_sets(1, 4)
    singles = torch.cat([loss(a[i], b[i], masks=masks) for i in range(4)])
    torch.testing.assert_close(loss(a, b, masks=masks), singles)


@pytest.mark.parametrize("loss", LOSSES)
def test_empty_targets(loss):
    a = some_sets(0, 2, 4, soft=True)
    empty = Sets.from_list([[], []], max_size=4, features=2, dtype=torch.float64)
    feature = loss(a, empty, masks="feature")
    assert min(feature.tolist()) > 0  # pulled towards zero elements with mask 0
    assert chamfer_loss(a, empty, masks="filter").tolist() == [0, 0]
    assert hungarian_loss(a, empty, masks="filter", mask_weight=0).tolist() == [0, 0]
    no_capacity = Sets.from_list([[], []], features=2, dtype=torch.float64)
    assert loss(a, no_capacity).tolist() == feature.tolist()  # padded to the prediction's capacity
    assert loss(a, no_capacity, masks="filter").tolist() == loss(a, empty, masks="filter").tolist()


@pytest.mark.parametrize("loss", LOSSES)
def test_no_predicted_elements_for_empty_targets(loss):
    predicted, target = Sets(torch.zeros(2, 0, 1), torch.zeros(2, 0)), Sets(torch.zeros(2, 3, 1), torch.zeros(2, 3) > 0)
    assert loss(predicted, target, masks="filter").tolist() == [0, 0]


@pytest.mark.parametrize("loss", LOSSES)
def test_sets_of_one_element_and_equal_sets(loss):
    one = Sets.from_list([[[0.5, 0.5]]])
    assert loss(one, one).item() == 0
    twice = Sets.from_list([[[0.5, 0.5], [0.5, 0.5]]])
    assert loss(twice, twice).item() == 0


@pytest.mark.parametrize("loss", LOSSES)
def test_mismatches_are_named(loss):
    a, b = some_sets(0), some_sets(1)
    with pytest.raises(ValueError, match="3 predicted sets for 2 targets"):
        loss(a, b[:2])
    with pytest.raises(UserError, match="predicted elements have 2 features, the target's have 3"):
        loss(a, Sets(torch.zeros(3, 5, 3).double(), b.mask))
    wide = Sets(torch.zeros(3, 6, 2).double(), torch.ones(3, 6, dtype=torch.bool))
    with pytest.raises(UserError, match="a target set has 6 elements, more than the 5 that are predicted"):
        loss(a, wide)
    with pytest.raises(UserError, match="target sets have capacity 6, more than the 5 predicted elements"):
        loss(a, Sets(wide.elements, torch.zeros(3, 6, dtype=torch.bool)))
    bad = Sets(a.elements.clone(), a.mask)
    bad.elements[1, 2, 0] = float("nan")
    with pytest.raises(NotFinite, match="predicted set 1, element 2 is nan"):
        loss(bad, b)
    with pytest.raises(NotFinite, match="target set 1, element 2 is nan"):
        loss(b, bad)


def test_bool_masks_filter_predictions_too():
    a, b = some_sets(0), some_sets(1)
    got = chamfer_loss(a, b, masks="filter")
    for i, (x, y) in enumerate(zip(a.to_list(), b.to_list())):
        pairs = huber(x[:, None], y[None])
        assert got[i].item() == pytest.approx((pairs.amin(1).mean() + pairs.amin(0).mean()).item()), f"sample {i}"


def test_an_empty_or_too_small_prediction_is_an_error():
    target = Sets.from_list([[[0.0]], [[0.0], [1.0]]])
    empty = Sets(torch.zeros(2, 2, 1), torch.tensor([[True, False], [False, False]]))
    for loss in (chamfer_loss, hungarian_loss):
        with pytest.raises(UserError, match="predicted set 1 is empty and its target is not"):
            loss(empty, target, masks="filter")
    few = Sets(torch.zeros(2, 2, 1), torch.tensor([[True, False], [True, False]]))
    with pytest.raises(UserError, match="predicted set 1 has 1 elements, its target 2"):
        hungarian_loss(few, target, masks="filter")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_matched(dtype):
    target = Sets.from_list([[[0.0], [1.0]]])
    predicted = Sets(torch.tensor([[[0.75], [0.25]]], dtype=dtype), torch.ones(1, 2, dtype=dtype))
    for loss in (chamfer_loss, hungarian_loss):
        assert loss(predicted, target.to(dtype)).float().item() == pytest.approx(
            loss(predicted.to(torch.float32), target).item(), rel=0.02
        )
