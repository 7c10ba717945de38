"""Exactly right elements against counting with multisets."""

from collections import Counter

import pytest
import torch

from setpredict.metrics import ExactAccuracy, exact_elements
from setpredict.sets import Sets

GROUPS = {"class": (0, 3), "number": (3, 5)}


def random_sets(B: int, N: int, seed: int, hard: bool) -> Sets:
    generator = torch.Generator().manual_seed(seed)
    elements = torch.rand(B, N, 5, generator=generator)
    mask = torch.rand(B, N, generator=generator)
    return Sets(elements, mask > 0.4 if hard else mask)


def as_counters(sets: Sets) -> list[Counter]:
    found = []
    for elements, mask in zip(sets.elements, sets.mask):
        kept = [e for e, m in zip(elements, mask) if m > 0.5]
        found.append(Counter((int(e[:3].argmax()), int(e[3:].argmax())) for e in kept))
    return found


@pytest.mark.parametrize(("N", "M"), [(6, 6), (4, 7), (7, 4), (1, 1), (0, 3), (3, 0)])
def test_right_elements_are_the_intersection_of_multisets(N, M):
    predicted, target = random_sets(40, N, 1, hard=False), random_sets(40, M, 2, hard=True)
    pairs = list(zip(as_counters(predicted), as_counters(target)))
    expected = [(a & b).total() for a, b in pairs]
    assert exact_elements(predicted, target, GROUPS).sum(dim=1).tolist() == expected
    metric = ExactAccuracy(GROUPS)
    metric.update(predicted[:13], target[:13])
    metric.update(predicted[13:], target[13:])
    elements, found = sum(b.total() for _, b in pairs), metric.compute()
    assert float(found["set"]) == sum(a == b for a, b in pairs) / 40
    if elements:
        assert float(found["element"]) == sum(expected) / elements
    else:
        assert found["element"].isnan()


def test_the_order_does_not_matter():
    predicted, target = random_sets(20, 6, 3, hard=False), random_sets(20, 6, 4, hard=True)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    before = exact_elements(predicted, target, GROUPS).sum(dim=1)
    assert torch.equal(exact_elements(predicted.permute(order), target, GROUPS).sum(dim=1), before)
    assert torch.equal(exact_elements(predicted, target.permute(order), GROUPS).sum(dim=1), before)


def test_surplus_elements_spoil_a_set_but_no_element():
    one = [[1.0, 0, 0, 1, 0]]
    metric = ExactAccuracy(GROUPS)
    metric.update(Sets.from_list([one * 2]), Sets.from_list([one]))
    assert {k: float(v) for k, v in metric.compute().items()} == {"element": 1.0, "set": 0.0}


def test_wrong_inputs_are_named():
    with pytest.raises(ValueError, match="2 predicted sets for 1 targets"):
        exact_elements(random_sets(2, 3, 0, False), random_sets(1, 3, 0, True), GROUPS)
    broken = Sets(torch.full((1, 2, 5), float("nan")), torch.ones(1, 2))
    with pytest.raises(ValueError, match="predicted set 0, element 0 is nan"):
        exact_elements(broken, random_sets(1, 2, 0, True), GROUPS)
