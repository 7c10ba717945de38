"""Average precision: against nested loops on data full of ties, and the mistakes that others made."""

import math

import brute_force
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from setpredict.metrics import box_average_precision, pooled_average_precision, state_average_precision
from setpredict.metrics.average_precision import BOX_THRESHOLDS, STATE_THRESHOLDS, _descending

INF = float("inf")


def random_boxes(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Boxes on a coarse grid: many overlap, many are equal, some are empty or have their sides swapped."""
    low = torch.randint(0, 3, (*shape, 2), generator=generator)
    side = torch.randint(-1, 3, (*shape, 2), generator=generator)
    return torch.cat([low, low + side], dim=-1) / 4


def random_states(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Coordinates on a coarse grid and attributes of few kinds, at times with two equal maxima in a group."""
    coordinates = torch.randint(-2, 3, (*shape, 3), generator=generator) / 8
    features = torch.zeros(*shape, 15)
    for start in (0, 2, 10, 13):
        chosen = start + (torch.rand(shape, generator=generator) < 0.2).long()
        features.scatter_(-1, chosen[..., None], 1.0)
    features[..., 2][torch.rand(shape, generator=generator) < 0.1] = 1.0
    return torch.cat([coordinates, features], dim=-1)


def random_scores(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Five values, of which three are 0 or 1 after clamping."""
    return torch.randint(-1, 4, shape, generator=generator) / 2


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
    ours = state_average_precision(states, scores, targets, mask, thresholds, index=index)
    floors = [-t for t in thresholds]
    numbers = None if index is None else index.tolist()
    choose = brute_force.nearest_state()
    expected = brute_force.average_precision(states, scores, targets, mask, choose, floors, numbers)
    assert ours.tolist() == pytest.approx(expected, abs=1e-12)


def test_random_data_has_what_it_should():
    """The comparison above means something: matches, taken targets and ties occur."""
    g = torch.Generator().manual_seed(0)
    states, targets = random_states(g, 50, 6), random_states(g, 50, 5)
    mask = torch.ones(50, 5, dtype=torch.bool)
    ap = state_average_precision(states, random_scores(g, 50, 6), targets, mask, (INF, 1.0, 0.375, 0.0))
    assert ap[0] > ap[1] > ap[2] > ap[3] > 0
    boxes = box_average_precision(random_boxes(g, 50, 6), random_scores(g, 50, 6), random_boxes(g, 50, 5), mask)
    assert 0 < boxes[-1] < boxes[0] < 0.9


def test_other_layouts():
    """Two coordinates, one group, not CLEVR."""
    g = torch.Generator().manual_seed(1)
    states, targets = torch.rand(20, 4, 5, generator=g), torch.rand(20, 3, 5, generator=g)
    scores, mask = torch.rand(20, 4, generator=g), torch.rand(20, 3, generator=g) < 0.8
    layout = {"coordinates": 2, "scale": 0.5}
    ours = state_average_precision(states, scores, targets, mask, (INF, 0.2), groups={"a": (2, 5)}, **layout)
    choose = brute_force.nearest_state(groups=((2, 5),), **layout)
    floors = (-INF, -0.2)
    expected = brute_force.average_precision(states, scores, targets, mask, choose, floors)
    assert ours.tolist() == pytest.approx(expected, abs=1e-12)
    without = state_average_precision(states, scores, targets, mask, (INF, 0.2), groups={}, **layout)
    assert (without >= ours).all()
    assert without[0] > ours[0]


def two_images():
    """Image 0: its one target is found, by the best detection. Image 1: two targets, of which the second is missed."""
    box, far = [0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]
    boxes = torch.tensor([[box, far], [far, box]])
    scores = torch.tensor([[0.9, 0.8], [0.7, 0.1]])
    targets = torch.tensor([[box, box], [box, [0.0, 0.5, 0.5, 1.0]]])
    mask = torch.tensor([[True, False], [True, True]])
    return boxes, scores, targets, mask


def test_images_are_pooled_not_averaged_and_none_is_left_out():
    """The two traps: the mean of each image's AP, and an answer after the first image."""
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
    """Two boxes nearest to one target: the second is false even where another target is near enough."""
    targets = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9]]])
    boxes = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.99]]])
    mask, scores = torch.ones(1, 2, dtype=torch.bool), torch.tensor([[0.9, 0.8]])
    assert box_average_precision(boxes, scores, targets, mask, (0.5,)).item() == 0.5


def test_a_detection_that_fails_takes_nothing():
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


def test_scores_beyond_the_unit_interval_are_ties():
    boxes, scores, targets, mask = two_images()
    clamped = box_average_precision(boxes, torch.tensor([[3.0, 1.0], [1.5, -2.0]]), targets, mask, (0.5,))
    assert clamped.tolist() == box_average_precision(boxes, scores, targets, mask, (0.5,)).tolist()
    reordered = box_average_precision(boxes, torch.tensor([[-0.0, 0.0], [-1.0, 0.0]]), targets, mask, (0.5,))
    assert reordered.tolist() == clamped.tolist()  # all tied at 0: the order of images and elements


@pytest.mark.parametrize("kind", ["boxes", "states"])
def test_order_of_elements_and_images_does_not_matter(kind):
    """With distinct scores and distances."""
    g = torch.Generator().manual_seed(2)
    images, N, M = 12, 6, 5
    if kind == "boxes":
        low = torch.rand(images, M, 2, generator=g)
        targets, measure = (
            torch.cat([low, low + 0.1 + torch.rand(images, M, 2, generator=g)], -1),
            box_average_precision,
        )
    else:
        targets, measure = random_states(g, images, M), state_average_precision
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
    assert (
        measure(outputs[i], ties[i], targets[i], mask[i], index=i).tolist()
        == measure(outputs, ties, targets, mask).tolist()
    )


def test_chunks_do_not_show(monkeypatch):
    g = torch.Generator().manual_seed(3)
    states, targets = random_states(g, 30, 6), random_states(g, 30, 5)
    scores, mask = random_scores(g, 30, 6), torch.rand(30, 5, generator=g) < 0.8
    whole = state_average_precision(states, scores, targets, mask)
    monkeypatch.setattr("setpredict.metrics.candidates.PAIRS_AT_ONCE", 7 * 30)
    assert state_average_precision(states, scores, targets, mask).tolist() == whole.tolist()


def test_plus_one_overestimates():
    a, b = torch.tensor([[[0.0, 0.0, 0.2, 0.2]]]), torch.tensor([[[0.5, 0.5, 0.7, 0.7]]])
    mask, scores = torch.ones(1, 1, dtype=torch.bool), torch.ones(1, 1)
    assert box_average_precision(a, scores, b, mask, (0.2,)).item() == 0
    assert box_average_precision(a, scores, b, mask, (0.2,), plus_one=True).item() == 1  # 0.7² / (2 · 1.2² − 0.7²)
    assert box_average_precision(a, scores, b, mask, (0.25,), plus_one=True).item() == 0


def test_edges():
    none = torch.zeros(2, 3, dtype=torch.bool)
    boxes, scores = torch.rand(2, 4, 4), torch.rand(2, 4)
    targets, some = torch.rand(2, 3, 4), none.clone()
    some[0, 0] = True
    assert box_average_precision(boxes, scores, targets, none).isnan().all()  # no targets: undefined
    assert box_average_precision(boxes, scores, torch.zeros(2, 0, 4), torch.zeros(2, 0).bool()).isnan().all()
    assert box_average_precision(boxes[:0], scores[:0], targets[:0], none[:0]).isnan().all()
    assert box_average_precision(boxes[:, :0], scores[:, :0], targets, some).tolist() == [0.0] * 5  # no detections
    perfect = torch.tensor([[[0.0, 0.0, 1.0, 1.0]], [[0.0, 0.0, 1.0, 1.0]]])
    mask = torch.tensor([[True], [False]])  # the second image is empty: what it says is false
    assert box_average_precision(perfect, torch.tensor([[0.5], [0.9]]), perfect, mask).tolist() == [0.5] * 5
    assert box_average_precision(perfect, torch.tensor([[0.9], [0.5]]), perfect, mask).tolist() == [1.0] * 5
    padded = torch.cat([perfect, torch.full((2, 1, 4), torch.nan)], dim=1)  # padding may hold anything
    wide = torch.tensor([[True, False], [False, False]])
    assert box_average_precision(perfect, torch.tensor([[0.9], [0.5]]), padded, wide).tolist() == [1.0] * 5
    state = torch.zeros(1, 2, 18)
    assert state_average_precision(state, torch.rand(1, 2), state, torch.ones(1, 2).bool())[0] == 0.5  # duplicates


def test_perfect_predictions_of_every_dtype():
    for dtype in (torch.float32, torch.float64):
        low = torch.rand(7, 3, 2, dtype=dtype)
        boxes = torch.cat([low, low + 0.5], dim=-1)
        ap = box_average_precision(boxes, torch.rand(7, 3, dtype=dtype), boxes, torch.ones(7, 3).bool(), (1.0,))
        assert ap.tolist() == pytest.approx([1.0])


@given(st.lists(st.floats(0, 1, width=32), max_size=30))
def test_fast_order_is_the_stable_one(scores):
    values = torch.tensor(scores, dtype=torch.float32)
    assert _descending(values).tolist() == _descending(values.double()).tolist()
    assert _descending(values).tolist() == sorted(range(len(scores)), key=lambda i: (-values[i].item(), i))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_are_named(value):
    boxes, scores, targets, mask = two_images()
    boxes[1, 0, 2] = value
    with pytest.raises(ValueError, match="box 0 of image 1 is"):
        box_average_precision(boxes, scores, targets, mask)
    boxes, scores, targets, mask = two_images()
    targets[1, 1, 0] = value
    with pytest.raises(ValueError, match="target box 1 of image 1 is"):
        box_average_precision(boxes, scores, targets, mask)
    boxes, scores, targets, mask = two_images()
    scores[0, 1] = value
    with pytest.raises(ValueError, match="score 1 of image 0 is"):
        box_average_precision(boxes, scores, targets, mask)
    state = torch.zeros(3, 2, 18)
    broken = state.clone()
    broken[2, 1, 17] = value
    with pytest.raises(ValueError, match="state 1 of image 2 is"):
        state_average_precision(broken, torch.rand(3, 2), state, torch.ones(3, 2).bool())
    with pytest.raises(ValueError, match="target state 1 of image 2 is"):
        state_average_precision(state, torch.rand(3, 2), broken, torch.ones(3, 2).bool())


def test_large_finite_values_are_not_refused():
    boxes, scores, targets, mask = two_images()
    boxes[0, 1] = 3e38
    assert box_average_precision(boxes, scores, targets, mask, (0.5,)).item() == pytest.approx(0.5)


def test_wrong_options_are_named():
    boxes, scores, targets, mask = two_images()
    with pytest.raises(ValueError, match=r"IoU thresholds .*1\.5"):
        box_average_precision(boxes, scores, targets, mask, (1.5,))
    with pytest.raises(ValueError, match="IoU thresholds"):
        box_average_precision(boxes, scores, targets, mask, ())
    with pytest.raises(ValueError, match="7 occurs more than once"):
        box_average_precision(boxes, scores, targets, mask, index=torch.tensor([7, 7]))
    state = torch.zeros(2, 2, 18)
    with pytest.raises(ValueError, match="distance thresholds"):
        state_average_precision(state, scores, state, mask, (-1.0,))
    with pytest.raises(ValueError, match=r"group 'size' .* 17 features"):
        state_average_precision(state[..., :17], scores, state[..., :17], mask)
    with pytest.raises(ValueError, match="coordinates"):
        state_average_precision(state, scores, state, mask, coordinates=19)
    with pytest.raises(ValueError, match="scale"):
        state_average_precision(state, scores, state, mask, scale=0.0)


def test_interpolation_by_hand():
    """True at ranks 1, 3 and 4 of 5, four targets: precisions 1, 2/3, 3/4, of which the second is lifted to 3/4."""
    agreement = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    scores = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5])
    ap = pooled_average_precision(agreement, scores, torch.arange(5), 4, [0.5])
    assert ap.item() == pytest.approx((1 + 3 / 4 + 3 / 4) / 4)


def test_defaults_are_the_papers():
    assert BOX_THRESHOLDS == (0.5, 0.6, 0.7, 0.8, 0.9)
    assert STATE_THRESHOLDS == (INF, 1.0, 0.5, 0.25, 0.125, 0.0625)
