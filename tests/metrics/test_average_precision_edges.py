"""Edge cases of average precision: nothing present, values that are not finite, wrong options, the paper's +1."""

import math

import pytest
import torch
from examples import CLEVR, two_images

from setpredict import NotFinite
from setpredict.metrics import box_average_precision, box_iou, pooled_average_precision, state_average_precision


@pytest.mark.parametrize(
    ("other", "iou"),
    [
        ((0.1, 0.1, 0.3, 0.3), 1.1**2 / (2 * 1.2**2 - 1.1**2)),
        ((0.2, 0.2, 0.4, 0.4), 1 / (2 * 1.2**2 - 1)),  # they touch at a corner
        ((0.2, 0.1, 0.4, 0.3), 1.1 / (2 * 1.2**2 - 1.1)),  # … and at a side
        ((0.3, 0.3, 0.5, 0.5), 0.0),
        ((0.0, 0.3, 0.2, 0.5), 0.0),  # apart in one direction only
    ],
)
def test_plus_one_overestimates_boxes_that_touch(other, iou):
    a, b = torch.tensor([[[0.0, 0.0, 0.2, 0.2]]], dtype=torch.float64), torch.tensor([[other]], dtype=torch.float64)
    assert box_iou(a, b, plus_one=True).item() == pytest.approx(iou, abs=1e-12)
    assert box_iou(b, a, plus_one=True).item() == pytest.approx(iou, abs=1e-12)
    assert box_iou(a, b).item() <= iou
    mask, scores = torch.ones(1, 1, dtype=torch.bool), torch.ones(1, 1)
    found = box_average_precision(a, scores, b, mask, (iou / 2 or 0.01, iou + 0.01), plus_one=True)
    assert found.tolist() == [float(iou > 0), 0.0]


def test_edges():
    none = torch.zeros(2, 3, dtype=torch.bool)
    g = torch.Generator().manual_seed(0)
    boxes, scores = torch.rand(2, 4, 4, generator=g), torch.rand(2, 4, generator=g)
    targets, some = torch.rand(2, 3, 4, generator=g), none.clone()
    some[0, 0] = True
    undefined = pytest.approx([math.nan] * 5, nan_ok=True)
    assert box_average_precision(boxes, scores, targets, none).tolist() == undefined  # no targets
    assert box_average_precision(boxes, scores, torch.zeros(2, 0, 4), torch.zeros(2, 0).bool()).tolist() == undefined
    assert box_average_precision(boxes[:0], scores[:0], targets[:0], none[:0]).tolist() == undefined
    assert box_average_precision(boxes[:, :0], scores[:, :0], targets, some).tolist() == [0.0] * 5  # no detections
    perfect = torch.tensor([[[0.0, 0.0, 1.0, 1.0]], [[0.0, 0.0, 1.0, 1.0]]])
    mask = torch.tensor([[True], [False]])  # the second image is empty: its detection is false
    assert box_average_precision(perfect, torch.tensor([[0.5], [0.9]]), perfect, mask).tolist() == [0.5] * 5
    assert box_average_precision(perfect, torch.tensor([[0.9], [0.5]]), perfect, mask).tolist() == [1.0] * 5
    padded = torch.cat([perfect, torch.full((2, 1, 4), torch.nan)], dim=1)  # padding may hold anything
    wide = torch.tensor([[True, False], [False, False]])
    assert box_average_precision(perfect, torch.tensor([[0.9], [0.5]]), padded, wide).tolist() == [1.0] * 5
    state = torch.zeros(1, 2, 18)
    scores, mask = torch.tensor([[0.3, 0.4]]), torch.ones(1, 2).bool()
    assert state_average_precision(state, scores, state, mask, **CLEVR)[0] == 0.5  # duplicates


def test_perfect_predictions_of_every_dtype():
    g = torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.float64):
        low, scores = torch.rand(7, 3, 2, dtype=dtype, generator=g), torch.rand(7, 3, dtype=dtype, generator=g)
        boxes = torch.cat([low, low + 0.5], dim=-1)
        ap = box_average_precision(boxes, scores, boxes, torch.ones(7, 3).bool(), (1.0,))
        assert ap.tolist() == pytest.approx([1.0]), dtype


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_named(value):
    boxes, scores, targets, mask = two_images()
    boxes[1, 0, 2] = value
    with pytest.raises(NotFinite, match="box 0 of image 1 is"):
        box_average_precision(boxes, scores, targets, mask)
    boxes, scores, targets, mask = two_images()
    targets[1, 1, 0] = value
    with pytest.raises(NotFinite, match="target box 1 of image 1 is"):
        box_average_precision(boxes, scores, targets, mask)
    boxes, scores, targets, mask = two_images()
    scores[0, 1] = value
    with pytest.raises(NotFinite, match="score 1 of image 0 is"):
        box_average_precision(boxes, scores, targets, mask)
    state = torch.zeros(3, 2, 18)
    broken = state.clone()
    broken[2, 1, 17] = value
    scores, mask = torch.zeros(3, 2), torch.ones(3, 2).bool()
    with pytest.raises(NotFinite, match=r"^state 1 of image 2 is"):
        state_average_precision(broken, scores, state, mask, **CLEVR)
    with pytest.raises(NotFinite, match="target state 1 of image 2 is"):
        state_average_precision(state, scores, broken, mask, **CLEVR)


def test_large_finite_values_are_accepted():
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
    state, layout = torch.zeros(2, 2, 18), dict(CLEVR)
    with pytest.raises(ValueError, match="distance thresholds"):
        state_average_precision(state, scores, state, mask, (-1.0,), **CLEVR)
    with pytest.raises(ValueError, match=r"group 'size' .* 17 features"):
        state_average_precision(state[..., :17], scores, state[..., :17], mask, **CLEVR)
    layout["coordinates"] = 19
    with pytest.raises(ValueError, match="coordinates"):
        state_average_precision(state, scores, state, mask, **layout)
    layout.update(coordinates=3, scale=0.0)
    with pytest.raises(ValueError, match="scale"):
        state_average_precision(state, scores, state, mask, **layout)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_below_zero_are_ordered(dtype):
    agreement, scores = torch.tensor([0.1, 0.9]), torch.tensor([-2.0, -1.0], dtype=dtype)
    (found,) = pooled_average_precision(agreement, scores, torch.tensor([0, 0]), 1, [0.5])
    assert found == 1.0
