"""Average precision against nested loops on data full of ties, and against the mistakes of other implementations."""

from functools import partial
from typing import Any

import brute_force
import pytest
import torch
from examples import CLEVR, random_boxes, random_scores, random_states, two_images
from hypothesis import given, settings
from hypothesis import strategies as st

from setpredict.metrics import box_average_precision, pooled_average_precision, state_average_precision
from setpredict.metrics.average_precision import BOX_THRESHOLDS, STATE_THRESHOLDS

INF = float("inf")
sizes = st.tuples(st.integers(1, 5), st.integers(0, 6), st.integers(1, 5))


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sizes=sizes, plus_one=st.booleans(), shuffled=st.booleans())
def test_boxes_equal_nested_loops(seed, sizes, plus_one, shuffled):
    (images, N, M), g = sizes, torch.Generator().manual_seed(seed)
    boxes, targets = random_boxes(g, images, N), random_boxes(g, images, M)
    scores, mask = random_scores(g, images, N), torch.rand(images, M, generator=g) < 0.7
    mask[0, 0] = True
    index = torch.randperm(images, generator=g) + 3 if shuffled else None
    thresholds = (0.0, 0.25, 0.5, 1.0)
    ours = box_average_precision(boxes, scores, targets, mask, thresholds, plus_one=plus_one, index=index)
    choose = brute_force.nearest_box(plus_one)
    numbers = None if index is None else index.tolist()
    expected = brute_force.average_precision(boxes, scores, targets, mask, choose, thresholds, numbers)
    assert ours.tolist() == pytest.approx(expected, abs=1e-12)


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sizes=sizes, shuffled=st.booleans())
def test_states_equal_nested_loops(seed, sizes, shuffled):
    (images, N, M), g = sizes, torch.Generator().manual_seed(seed)
    states, targets = random_states(g, images, N), random_states(g, images, M)
    scores, mask = random_scores(g, images, N), torch.rand(images, M, generator=g) < 0.7
    mask[0, 0] = True
    index = torch.randperm(images, generator=g) + 3 if shuffled else None
    thresholds = (INF, 1.0, 0.75, 0.375, 0.0)  # distances of exactly these occur: the grid times 3
    ours = state_average_precision(states, scores, targets, mask, thresholds, index=index, **CLEVR)
    floors = [-t for t in thresholds]
    numbers = None if index is None else index.tolist()
    choose = brute_force.nearest_state(**CLEVR)
    expected = brute_force.average_precision(states, scores, targets, mask, choose, floors, numbers)
    assert ours.tolist() == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sizes=sizes)
def test_boxes_with_classes_equal_nested_loops(seed, sizes):
    (images, N, M), g = sizes, torch.Generator().manual_seed(seed)
    classes = [torch.rand(images, count, 3, generator=g) for count in (N, M)]
    boxes = torch.cat([random_boxes(g, images, N), classes[0]], dim=2)
    targets = torch.cat([random_boxes(g, images, M), classes[1]], dim=2)
    scores, mask = random_scores(g, images, N), torch.rand(images, M, generator=g) < 0.7
    mask[0, 0] = True
    overlaps = brute_force.nearest_box()

    def class_of(element):
        return max(range(4, 7), key=element.__getitem__)

    def choose(box, truths):
        return overlaps(box, [(m, t) for m, t in truths if class_of(t) == class_of(box)])

    thresholds = (0.25, 0.5, 1.0)
    ours = box_average_precision(boxes, scores, targets, mask, thresholds, groups={"class": (4, 7)})
    expected = brute_force.average_precision(boxes, scores, targets, mask, choose, thresholds)
    assert ours.tolist() == pytest.approx(expected, abs=1e-12)


def test_random_data_is_not_trivial():
    """The comparisons above mean something: matches, matched targets and ties occur."""
    g = torch.Generator().manual_seed(0)
    states, targets = random_states(g, 50, 6), random_states(g, 50, 5)
    mask = torch.ones(50, 5, dtype=torch.bool)
    ap = state_average_precision(states, random_scores(g, 50, 6), targets, mask, (INF, 1.0, 0.375, 0.0), **CLEVR)
    assert ap[0] > ap[1] > ap[2] > ap[3] > 0
    boxes = box_average_precision(random_boxes(g, 50, 6), random_scores(g, 50, 6), random_boxes(g, 50, 5), mask)
    assert 0 < boxes[-1] < boxes[0] < 0.9


def test_other_layouts():
    """Two coordinates, one group, not CLEVR."""
    g = torch.Generator().manual_seed(1)
    states, targets = torch.rand(20, 4, 5, generator=g), torch.rand(20, 3, 5, generator=g)
    scores, mask = torch.rand(20, 4, generator=g), torch.rand(20, 3, generator=g) < 0.8
    for scale in (0.5, 1.0):
        layout: dict[str, Any] = {"coordinates": 2, "scale": scale, "groups": {"a": (2, 5)}}
        ours = state_average_precision(states, scores, targets, mask, (INF, 0.2), **layout)
        choose = brute_force.nearest_state(**layout)
        floors = (-INF, -0.2)
        expected = brute_force.average_precision(states, scores, targets, mask, choose, floors)
        assert ours.tolist() == pytest.approx(expected, abs=1e-12), f"scale {scale}"
        layout["groups"] = {}
        without = state_average_precision(states, scores, targets, mask, (INF, 0.2), **layout)
        assert without[0] > ours[0]
        assert without[1] >= ours[1]
    default = state_average_precision(states, scores, targets, mask, (INF, 0.2), coordinates=2, groups={"a": (2, 5)})
    assert default.tolist() == ours.tolist()  # scale 1


def test_all_images_are_pooled_not_averaged():
    """The two traps: averaging the AP of each image, and returning after the first image."""
    boxes, scores, targets, mask = two_images()
    pooled = box_average_precision(boxes, scores, targets, mask, (0.5,)).item()
    each = [
        box_average_precision(boxes[i : i + 1], scores[i : i + 1], targets[i : i + 1], mask[i : i + 1], (0.5,)).item()
        for i in range(2)
    ]
    assert each == pytest.approx([1.0, 1 / 4])
    assert pooled == pytest.approx((1 + 2 / 4) / 3)  # true at ranks 1 and 4, three targets
    assert pooled != pytest.approx(sum(each) / 2)
    assert pooled != pytest.approx(each[0])


def test_no_second_choice():
    """Of two boxes nearest to one target the second is false, even if another target is near enough."""
    targets = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9]]])
    boxes = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.99]]])
    mask, scores = torch.ones(1, 2, dtype=torch.bool), torch.tensor([[0.9, 0.8]])
    assert box_average_precision(boxes, scores, targets, mask, (0.5,)).item() == 0.5


def test_a_false_detection_does_not_use_up_its_target():
    targets = torch.tensor([[[0.0, 0.0, 1.0, 1.0]]])
    boxes = torch.tensor([[[0.0, 0.0, 1.0, 0.6], [0.0, 0.0, 1.0, 1.0]]])
    ap = box_average_precision(
        boxes, torch.tensor([[0.9, 0.8]]), targets, torch.ones(1, 1, dtype=torch.bool), (0.5, 0.7)
    )
    assert ap.tolist() == [1.0, 0.5]


def test_ties_break_by_image_then_element():
    boxes, _, targets, mask = two_images()
    ap = {}
    for order in ([0, 1], [1, 0]):
        ap[order[0]] = box_average_precision(
            boxes, torch.ones(2, 2), targets, mask, (0.5,), index=torch.tensor(order)
        ).item()
    assert ap[0] == pytest.approx((1 + 2 / 4) / 3)  # true at ranks 1 and 4
    assert ap[1] == pytest.approx((2 / 3 + 2 / 3) / 3)  # image 1 first: ranks 2 and 3


def test_scores_beyond_the_unit_interval_are_ranked_too():
    """Masks of MLP, LSTM and iDSPN are often above 1: they must not tie."""
    boxes, scores, targets, mask = two_images()
    expected = box_average_precision(boxes, scores, targets, mask, (0.5,)).tolist()
    assert box_average_precision(boxes, 3 * scores + 1, targets, mask, (0.5,)).tolist() == expected
    assert box_average_precision(boxes, scores - 1, targets, mask, (0.5,)).tolist() == expected
    order = torch.tensor([[1.2, 1.3], [1.4, 1.1]])
    assert box_average_precision(boxes, order, targets, mask, (0.5,)).item() == pytest.approx(
        (2 / 4 + 2 / 4) / 3
    )  # true at ranks 3 and 4


@pytest.mark.parametrize("kind", ["boxes", "states"])
def test_order_of_elements_and_images_does_not_matter(kind):
    """With distinct scores and distances."""
    g = torch.Generator().manual_seed(2)
    images, N, M = 12, 6, 5
    if kind == "boxes":
        low, measure = torch.rand(images, M, 2, generator=g), box_average_precision
        targets = torch.cat([low, low + 0.1 + torch.rand(images, M, 2, generator=g)], -1)
    else:
        targets, measure = random_states(g, images, M), partial(state_average_precision, **CLEVR)
        targets[..., :3] = torch.rand(images, M, 3, generator=g)
    outputs = torch.cat([targets, targets[:, :1]], dim=1) + 0.05 * torch.randn(images, N, targets.shape[2], generator=g)
    scores, mask = torch.rand(images, N, generator=g), torch.rand(images, M, generator=g) < 0.8
    ap = measure(outputs, scores, targets, mask)
    assert 0 < ap[0] < 1
    p, t, i = (torch.randperm(k, generator=g) for k in (N, M, images))
    assert measure(outputs[:, p], scores[:, p], targets, mask).tolist() == ap.tolist()
    assert measure(outputs, scores, targets[:, t], mask[:, t]).tolist() == ap.tolist()
    assert measure(outputs[i], scores[i], targets[i], mask[i]).tolist() == ap.tolist()
    ties = scores.round()
    tied = measure(outputs, ties, targets, mask)
    assert measure(outputs[i], ties[i], targets[i], mask[i], index=i).tolist() == tied.tolist()


def test_chunks_do_not_change_the_result(monkeypatch):
    g = torch.Generator().manual_seed(3)
    states, targets = random_states(g, 30, 6), random_states(g, 30, 5)
    scores, mask = random_scores(g, 30, 6), torch.rand(30, 5, generator=g) < 0.8
    at_once = state_average_precision(states, scores, targets, mask, **CLEVR)
    monkeypatch.setattr("setpredict.metrics.candidates.PAIRS_AT_ONCE", 7 * 30)
    assert state_average_precision(states, scores, targets, mask, **CLEVR).tolist() == at_once.tolist()


def test_interpolation_by_hand():
    """True at ranks 1, 3 and 4 of 5, four targets: precisions 1, 2/3, 3/4, of which the second is raised to 3/4."""
    agreement = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    scores = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5])
    ap = pooled_average_precision(agreement, scores, torch.arange(5), 4, [0.5])
    assert ap.item() == pytest.approx((1 + 3 / 4 + 3 / 4) / 4)


def test_defaults_are_the_papers():
    assert BOX_THRESHOLDS == (0.5, 0.6, 0.7, 0.8, 0.9)
    assert STATE_THRESHOLDS == (INF, 1.0, 0.5, 0.25, 0.125, 0.0625)
