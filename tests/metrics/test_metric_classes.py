"""The metrics over batches: equal to the pure functions on all data at once, whatever the batches."""

import math
import pickle
from typing import Any

import pytest
import torch
from ranks import all_metrics, make_data, number

from setpredict import Sets
from setpredict.losses import chamfer_loss, hungarian_loss
from setpredict.matching import PairCost
from setpredict.metrics import (
    BoxAveragePrecision,
    SetDistance,
    SetSizeAccuracy,
    StateAveragePrecision,
    box_average_precision,
    chamfer_distance,
    hungarian_distance,
    set_size_accuracy,
    set_size_error,
    state_average_precision,
)


@pytest.fixture(scope="module")
def data():
    return make_data()


def test_whole_equals_pure_functions(data):
    predicted, target = data
    boxes, states = (box_average_precision, state_average_precision)
    expected = {
        "box": boxes(predicted.elements[..., :4], predicted.mask, target.elements[..., :4], target.mask),
        "state": states(predicted.elements, predicted.mask, target.elements, target.mask),
        "chamfer": chamfer_distance(predicted, target),
        "hungarian": hungarian_distance(predicted, target),
        "accuracy": set_size_accuracy(predicted, target),
        "error": set_size_error(predicted, target),
    }
    assert expected["state"][0] > expected["state"][2] > 0
    assert expected["box"][0] > 0
    found = all_metrics(data, [torch.arange(len(predicted))])
    assert found == {k: number(v) for k, v in expected.items()}


def test_batches_and_their_order_do_not_matter(data):
    images = len(data[0])
    whole = all_metrics(data, [torch.arange(images)])
    shuffled = torch.randperm(images, generator=torch.Generator().manual_seed(5)).split([1, 7, 11, images - 19])
    assert all_metrics(data, list(shuffled)) == whole
    in_order = torch.arange(images).split(8)
    assert all_metrics(data, list(in_order), with_index=False) == whole  # arrival is the order of the images


def test_paddings_of_batches_may_differ(data):
    predicted, target = data
    metric, wider = StateAveragePrecision(), StateAveragePrecision()
    for i in (slice(0, 10), slice(10, len(target))):
        index = torch.arange(len(target))[i]
        metric.update(predicted[i], target[i], index)
        wider.update(predicted[i], target[i].pad_to(6 + i.start), index)
    assert metric.compute().tolist() == wider.compute().tolist()


def test_forward_gives_the_batch_and_keeps_the_whole(data):
    predicted, target = data
    metric, whole = SetDistance("chamfer"), chamfer_distance(predicted, target)
    assert metric(predicted[:3], target[:3]).item() == chamfer_distance(predicted[:3], target[:3]).item()
    metric(predicted[3:], target[3:])
    assert metric.compute().item() == whole.item()
    metric.reset()
    metric.update(predicted[3:4], target[3:4])
    assert metric.compute().item() == chamfer_distance(predicted[3:4], target[3:4]).item()


def test_distances_are_the_losses(data):
    predicted, target = data
    every: list[dict[str, Any]] = [{}, {"cost": "squared"}]
    every.append({"cost": PairCost(weights=(2.0,) * 18), "masks": "filter"})
    for options in every:
        for loss, distance, metric in (
            (chamfer_loss, chamfer_distance, SetDistance("chamfer", **options)),
            (hungarian_loss, hungarian_distance, SetDistance("hungarian", **options)),
        ):
            expected = loss(predicted, target, **options).double().mean().item()
            metric.update(predicted, target)
            assert distance(predicted, target, **options).item() == pytest.approx(expected, rel=1e-12)
            assert metric.compute().item() == distance(predicted, target, **options).item()


def test_distances_carry_no_graph():
    predicted = Sets(torch.rand(2, 3, 2, requires_grad=True), torch.rand(2, 3))
    target = Sets.from_list([[[0.1, 0.2]], [[0.3, 0.4]]], max_size=3)
    for metric in (SetDistance("chamfer"), SetDistance("hungarian")):
        metric.update(predicted, target)
        assert not metric.compute().requires_grad
        assert not metric.rows[0].requires_grad


def test_set_sizes():
    predicted = Sets(
        torch.zeros(4, 3, 1), torch.tensor([[0.9, 0.6, 0.1], [2.0, -1.0, 0.5], [0.7, 0.7, 0.7], [0, 0, 0]])
    )
    target = Sets.from_list([[[0.0], [0.0]], [[0.0]], [], [[0.0], [0.0]]])
    assert set_size_accuracy(predicted, target).item() == 0.5
    assert set_size_error(predicted, target).item() == (0 + 0 + 3 + 2) / 4
    assert set_size_accuracy(predicted, target, threshold=0.65).item() == 0.25
    metric = SetSizeAccuracy(threshold=0.65)
    for i in range(4):
        metric.update(predicted[i], target[i])
    assert {k: v.item() for k, v in metric.compute().items()} == {"accuracy": 0.25, "error": (1 + 0 + 3 + 2) / 4}
    hard = Sets(predicted.elements, predicted.mask > 0.5)
    assert set_size_accuracy(hard, target).item() == 0.5
    with pytest.raises(ValueError, match=r"threshold .* 1\.0"):
        set_size_accuracy(predicted, target, threshold=1.0)
    with pytest.raises(ValueError, match="4 predicted sets for 2 targets"):
        set_size_accuracy(predicted, target[:2])
    assert math.isnan(set_size_accuracy(predicted[:0], target[:0]).item())


def test_metrics_are_pickled_with_their_state(data):
    metric = BoxAveragePrecision(thresholds=(0.3,))
    metric.update(Sets(data[0].elements[..., :4], data[0].mask), Sets(data[1].elements[..., :4], data[1].mask))
    assert pickle.loads(pickle.dumps(metric)).compute().tolist() == metric.compute().tolist()


def test_wrong_use_is_named(data):
    predicted, target = data
    metric = StateAveragePrecision()
    metric.update(predicted[:2], target[:2], index=torch.tensor([0, 1]))
    metric.update(predicted[2:3], target[2:3], index=torch.tensor([1]))
    with pytest.raises(ValueError, match="1 occurs more than once"):
        metric.compute()
    metric.reset()
    metric.update(predicted[:2], target[:2], index=torch.tensor([0, 1]))
    metric.update(predicted[2:3], target[2:3])
    with pytest.raises(ValueError, match="give it always or never"):
        metric.compute()
    with pytest.raises(ValueError, match=r"index .* 2 images.* -1"):
        metric.update(predicted[:2], target[:2], index=torch.tensor([0, -1]))
    with pytest.raises(ValueError, match="2 predicted sets for 3 targets"):
        metric.update(predicted[:2], target[:3])
    with pytest.raises(ValueError, match="predicted elements have 18 features, expected 4"):
        BoxAveragePrecision().update(predicted, target)
    with pytest.raises(ValueError, match="IoU thresholds"):
        BoxAveragePrecision(thresholds=(50.0,))
    broken = Sets(predicted.elements.clone(), predicted.mask.clone())
    broken.mask[4, 2] = torch.nan
    for m in (StateAveragePrecision(), SetDistance("chamfer"), SetDistance("hungarian"), SetSizeAccuracy()):
        with pytest.raises(ValueError, match=r"score 2 of image 4 is nan|predicted set 4, element 2 is nan"):
            m.update(broken, target)


def test_no_sets_no_number():
    for metric in (BoxAveragePrecision(), SetDistance("chamfer"), SetDistance("hungarian")):
        with pytest.warns(UserWarning, match="before the ``update``"):
            assert metric.compute().isnan().all()
