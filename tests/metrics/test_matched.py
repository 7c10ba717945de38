"""Errors of matched elements against brute force over all pairings."""

from itertools import combinations, permutations

import pytest
import torch
from scipy.optimize import linear_sum_assignment

from setpredict import Sets, UserError
from setpredict.matching import assign
from setpredict.metrics.matched import ElementErrors, Layout, MatchedErrors, match

LAYOUT = Layout(
    numbers=(0, 1),
    names=("x", "y", "kind a", "kind b", "kind c"),
    groups={"kind": (2, 5)},
    scale=(10.0, 4.0, 1.0, 1.0, 1.0),
    distances={"position": (0, 1)},
)


def make_data(B: int = 20, N: int = 4, M: int = 5) -> tuple[Sets, Sets]:
    g = torch.Generator().manual_seed(0)
    kinds = torch.nn.functional.one_hot(torch.randint(0, 3, (B, M), generator=g), 3).float()
    target = torch.cat([torch.rand(B, M, 2, generator=g), kinds], dim=2)
    mask = torch.rand(B, M, generator=g) < 0.6
    predicted = torch.rand(B, N, 5, generator=g)
    return Sets(predicted, torch.rand(B, N, generator=g)), Sets(target * mask[..., None], mask)


def best_pairs(a: torch.Tensor, b: torch.Tensor) -> list[tuple[int, int]]:
    """The pairing of the rows of a and b of smallest total distance, by trying all of them."""
    if len(a) > len(b):
        return [(j, i) for i, j in best_pairs(b, a)]
    options = [list(zip(range(len(a)), p)) for c in combinations(range(len(b)), len(a)) for p in permutations(c)]
    return min(options, key=lambda pairs: sum(float((a[i] - b[j]).norm()) for i, j in pairs))


def sparse(counts: torch.Tensor) -> list[list[int]]:
    return [[i, j, n] for i, line in enumerate(counts.tolist()) for j, n in enumerate(line) if n]


def brute_force(predicted: Sets, target: Sets) -> ElementErrors:
    found, kinds, errors = ElementErrors(), torch.zeros(3, 3, dtype=torch.long), []
    for i in range(len(target)):
        a, b = (s[i].to(torch.float64).to_list()[0] for s in (predicted, target))
        pairs = best_pairs(a[:, :2], b[:, :2])
        found.matched += len(pairs)
        found.missed += len(b) - len(pairs)
        found.surplus += len(a) - len(pairs)
        for p, t in pairs:
            dx, dy = 10 * abs(a[p, 0] - b[t, 0]), 4 * abs(a[p, 1] - b[t, 1])
            errors.append([(dx**2 + dy**2) ** 0.5, dx, dy])
            kinds[int(b[t, 2:].argmax()), int(a[p, 2:].argmax())] += 1
    found.errors = dict(zip(("position", "x", "y"), torch.tensor(errors).mean(dim=0).tolist()))
    found.accuracy, found.confusions = {"kind": int(kinds.trace()) / found.matched}, {"kind": sparse(kinds)}
    return found


def test_errors_are_those_of_brute_force():
    predicted, target = make_data()
    expected = brute_force(predicted, target)
    assert min(expected.matched, expected.missed, expected.surplus) > 3
    metric = MatchedErrors(LAYOUT)
    for part in torch.arange(len(target)).split(6):
        metric.update(predicted[part], target[part], part)
    found = metric.compute()
    assert (found.matched, found.missed, found.surplus) == (expected.matched, expected.missed, expected.surplus)
    assert found.errors == pytest.approx(expected.errors, rel=1e-5)
    assert found.accuracy == expected.accuracy
    assert found.confusions == expected.confusions


def test_centers_and_sizes_of_boxes():
    layout = Layout((0, 1, 2, 3), ("left", "top", "right", "bottom"), {}, (100.0,) * 4, boxes=True)
    metric = MatchedErrors(layout)
    target = Sets.from_list([[[0.1, 0.1, 0.3, 0.5]]])
    metric.update(Sets(torch.tensor([[[0.2, 0.1, 0.5, 0.3]]]), torch.ones(1, 1)), target)
    expected = {"center": (15**2 + 10**2) ** 0.5, "width": 10, "height": 20}
    expected |= {"left": 10, "top": 0, "right": 20, "bottom": 20}
    assert metric.compute().errors == pytest.approx(expected, abs=1e-4)


def test_elements_without_numbers_are_matched_by_their_categories():
    layout = Layout((), ("a", "b"), {"kind": (0, 2)})
    metric = MatchedErrors(layout)
    metric.update(Sets(torch.tensor([[[0.1, 0.9], [0.8, 0.2]]]), torch.ones(1, 2)), Sets.from_list([torch.eye(2)]))
    assert metric.compute() == ElementErrors(2, accuracy={"kind": 1.0}, confusions={"kind": [[0, 0, 1], [1, 1, 1]]})


@pytest.mark.parametrize(("N", "M"), [(0, 3), (3, 0), (0, 0)])
def test_empty_sets(N: int, M: int):
    metric = MatchedErrors(LAYOUT)
    predicted = Sets(torch.rand(2, 3, 5), torch.zeros(2, 3))
    predicted.mask[:, :N] = 1
    target = Sets(torch.zeros(2, 3, 5), torch.zeros(2, 3, dtype=torch.bool))
    target.mask[:, :M] = True
    metric.update(predicted, target)
    found = metric.compute()
    assert (found.matched, found.missed, found.surplus) == (0, 2 * M, 2 * N)
    assert all(value != value for value in found.errors.values())


def test_a_pair_however_far_is_better_than_none():
    index, _ = match(Sets(torch.tensor([[[1e5]]]), torch.ones(1, 1)), Sets.from_list([[[0.0]]]))
    assert index.tolist() == [[0]]


def test_other_features_are_an_error():
    with pytest.raises(UserError, match="predicted elements have 4 features, the target's have 5"):
        MatchedErrors(LAYOUT).update(Sets(torch.zeros(1, 1, 4), torch.ones(1, 1)), Sets.from_list([torch.zeros(1, 5)]))


def reference_pairs(predicted: Sets, target: Sets) -> list[list[int]]:
    """The pairs of each sample by itself, found by SciPy among its present elements only."""
    found = []
    for a, p, b, t in zip(predicted.elements, predicted.present, target.elements, target.present):
        index, rows, columns = torch.full((len(t),), -1), p.nonzero().flatten(), t.nonzero().flatten()
        i, j = linear_sum_assignment(torch.cdist(a[rows].double(), b[columns].double()).numpy())
        index[columns[j]] = rows[i]
        found.append(index.tolist())
    return found


@pytest.mark.parametrize(("N", "M"), [(0, 0), (0, 3), (3, 0), (1, 6), (6, 1), (5, 5)])
@pytest.mark.parametrize("at_once", [1, 100, 1 << 22])
def test_batches_are_matched_in_chunks(N: int, M: int, at_once: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("setpredict.metrics.matched.COSTS_AT_ONCE", at_once)
    counts = []

    def counted(costs: torch.Tensor, *masks: torch.Tensor) -> torch.Tensor:
        counts.append((len(costs), costs.numel()))
        return assign(costs, *masks)

    monkeypatch.setattr("setpredict.metrics.matched.assign", counted)
    predicted, target = make_data(20, N, M)
    assert match(predicted, target)[0].tolist() == reference_pairs(predicted, target)
    assert sum(samples for samples, _ in counts) == 20
    assert all(samples == 1 or costs <= at_once for samples, costs in counts)
    assert sum(costs for _, costs in counts) <= 20 * max(N, M + N) * M


def test_only_missing_predictions_cost_memory(monkeypatch: pytest.MonkeyPatch):
    shapes = []

    def recorded(costs: torch.Tensor, *masks: torch.Tensor) -> torch.Tensor:
        shapes.append(costs.shape)
        return assign(costs, *masks)

    monkeypatch.setattr("setpredict.metrics.matched.assign", recorded)
    full = Sets(torch.rand(2, 4, 3), torch.ones(2, 4))
    match(full, full)
    match(Sets(full.elements, torch.tensor([[1.0, 1, 1, 0], [1, 0, 0, 0]])), full)
    match(full[[]], full[[]])
    assert shapes == [(2, 4, 4), (2, 4 + 3, 4)]
