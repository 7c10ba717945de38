"""The metrics, batch by batch: equal to the pure functions on all data at once, whatever the batches."""

import math
import pickle
from typing import Any

import pytest
import torch
from examples import CLEVR
from ranks import all_metrics, make_data
from torchmetrics import MetricCollection

from setpredict import NotFinite, Sets
from setpredict.core.errors import UserError
from setpredict.losses import chamfer_loss, hungarian_loss
from setpredict.matching import PairCost
from setpredict.metrics import (
    BoxAveragePrecision,
    SetDistance,
    SetSizeAccuracy,
    StateAveragePrecision,
    box_average_precision,
    size_differences,
    state_average_precision,
)


@pytest.fixture(scope="module")
def data():
    return make_data()


def exact_mean(values: torch.Tensor) -> float:
    return math.fsum(values.tolist()) / len(values)


def test_metrics_equal_pure_functions(data):
    predicted, target = data
    boxes, states = (box_average_precision, state_average_precision)
    size_error = [abs(int((p > 0.5).sum()) - int(t.sum())) for p, t in zip(predicted.mask, target.mask)]
    expected = {
        "box": boxes(predicted.elements[..., :4], predicted.mask, target.elements[..., :4], target.mask).tolist(),
        "state": states(predicted.elements, predicted.mask, target.elements, target.mask, **CLEVR).tolist(),
        "chamfer": exact_mean(chamfer_loss(predicted, target)),
        "hungarian": exact_mean(hungarian_loss(predicted, target)),
        "accuracy": size_error.count(0) / len(target),
        "error": sum(size_error) / len(target),
    }
    assert expected["state"][0] > expected["state"][2] > 0
    assert expected["box"][0] > 0
    assert 0 < expected["accuracy"] < 1
    assert all_metrics(data, [torch.arange(len(predicted))]) == expected


def test_batches_and_their_order_do_not_matter(data):
    images = len(data[0])
    at_once = all_metrics(data, [torch.arange(images)])
    shuffled = torch.randperm(images, generator=torch.Generator().manual_seed(5)).split([1, 7, 11, images - 19])
    assert all_metrics(data, list(shuffled)) == at_once
    in_order = torch.arange(images).split(8)
    assert all_metrics(data, list(in_order), with_index=False) == at_once  # they arrive in the order of the images


def test_padding_of_batches_may_differ(data):
    predicted, target = data
    metric, wider = StateAveragePrecision(**CLEVR), StateAveragePrecision(**CLEVR)
    for i in (slice(0, 10), slice(10, len(target))):
        index = torch.arange(len(target))[i]
        metric.update(predicted[i], target[i], index)
        wider.update(predicted[i], target[i].pad_to(6 + i.start), index)
    assert metric.compute().tolist() == wider.compute().tolist()


def test_forward_gives_the_value_of_the_batch_and_accumulates(data):
    predicted, target = data
    metric, losses = SetDistance("chamfer"), chamfer_loss(predicted, target)
    assert metric(predicted[:3], target[:3]).item() == exact_mean(losses[:3])
    metric(predicted[3:], target[3:])
    assert metric.compute().item() == exact_mean(losses)
    metric.reset()
    metric.update(predicted[3:4], target[3:4])
    assert metric.compute().item() == losses[3].item()


def test_distances_are_the_losses(data):
    predicted, target = data
    every: list[dict[str, Any]] = [{}, {"cost": "squared"}]
    every.append({"cost": PairCost(weights=(2.0,) * 18), "masks": "filter"})
    for options in every:
        for name, loss in (("chamfer", chamfer_loss), ("hungarian", hungarian_loss)):
            expected = exact_mean(loss(predicted, target, **options))
            for metric in (SetDistance(name, **options), SetDistance(loss, **options)):  # pyright: ignore
                metric.update(predicted, target)
                assert metric.compute().item() == expected, (name, options)


def test_distances_carry_no_graph():
    g = torch.Generator().manual_seed(0)
    predicted = Sets(torch.rand(2, 3, 2, generator=g).requires_grad_(), torch.rand(2, 3, generator=g))
    target = Sets.from_list([[[0.1, 0.2]], [[0.3, 0.4]]], max_size=3)
    for name in ("chamfer", "hungarian"):
        metric = SetDistance(name)
        metric.update(predicted, target)
        assert not metric.compute().requires_grad, name
        assert not metric.rows[0].requires_grad, name


def test_set_sizes():
    predicted = Sets(
        torch.zeros(4, 3, 1), torch.tensor([[0.9, 0.6, 0.1], [2.0, -1.0, 0.5], [0.7, 0.7, 0.7], [0, 0, 0]])
    )
    target = Sets.from_list([[[0.0], [0.0]], [[0.0]], [], [[0.0], [0.0]]])
    assert size_differences(predicted, target).tolist() == [0, 0, 3, -2]
    assert size_differences(predicted, target, threshold=0.65).tolist() == [-1, 0, 3, -2]
    assert size_differences(Sets(predicted.elements, predicted.mask > 0.5), target).tolist() == [0, 0, 3, -2]
    assert size_differences(predicted[:0], target[:0]).tolist() == []
    metric = SetSizeAccuracy(threshold=0.65)
    for i in range(4):
        metric.update(predicted[i], target[i])
    assert {k: v.item() for k, v in metric.compute().items()} == {"accuracy": 0.25, "error": (1 + 0 + 3 + 2) / 4}
    metric.reset()
    metric.update(predicted[:0], target[:0])
    assert {k: v.item() for k, v in metric.compute().items()} == pytest.approx(
        {"accuracy": math.nan, "error": math.nan}, nan_ok=True
    )
    with pytest.raises(ValueError, match=r"threshold .* 1\.0"):
        size_differences(predicted, target, threshold=1.0)
    with pytest.raises(ValueError, match="4 predicted sets for 2 targets"):
        size_differences(predicted, target[:2])


def test_metrics_are_pickled_with_their_state(data):
    boxes = [Sets(sets.elements[..., :4], sets.mask) for sets in data]
    for metric, (predicted, target) in ((BoxAveragePrecision((0.3,)), boxes), (StateAveragePrecision(**CLEVR), data)):
        metric.update(predicted, target)
        assert metric.compute().max() > 0
        assert pickle.loads(pickle.dumps(metric)).compute().tolist() == metric.compute().tolist()


def test_wrong_use_is_named(data):
    predicted, target = data
    metric = StateAveragePrecision(**CLEVR)
    metric.update(predicted[:2], target[:2], index=torch.tensor([0, 1]))
    metric.update(predicted[2:3], target[2:3], index=torch.tensor([1]))
    with pytest.raises(ValueError, match="1 occurs more than once"):
        metric.compute()
    metric.reset()
    metric.update(predicted[:2], target[:2], index=torch.tensor([0, 1]))
    metric.update(predicted[2:3], target[2:3])
    with pytest.raises(ValueError, match="pass it always or never"):
        metric.compute()
    with pytest.raises(ValueError, match=r"index .* 2 images.* -1"):
        metric.update(predicted[:2], target[:2], index=torch.tensor([0, -1]))
    with pytest.raises(ValueError, match="2 predicted sets for 3 targets"):
        metric.update(predicted[:2], target[:3])
    with pytest.raises(UserError, match="predicted elements have 17 features, expected 18"):
        metric.update(Sets(predicted.elements[..., :17], predicted.mask), target)
    with pytest.raises(UserError, match="predicted elements have 18 features, expected 4"):
        BoxAveragePrecision().update(predicted, target)
    with pytest.raises(ValueError, match="IoU thresholds"):
        BoxAveragePrecision(thresholds=(50.0,))
    with pytest.raises(ValueError, match="distance thresholds"):
        StateAveragePrecision(thresholds=(-1.0,), **CLEVR)
    broken = Sets(predicted.elements.clone(), predicted.mask.clone())
    broken.mask[4, 2] = torch.nan
    for m in (StateAveragePrecision(**CLEVR), SetDistance("chamfer"), SetDistance("hungarian"), SetSizeAccuracy()):
        with pytest.raises(NotFinite, match=r"score 2 of image 4 is nan|predicted set 4, element 2 is nan"):
            m.update(broken, target)


def test_without_sets_the_value_is_nan():
    for metric in (BoxAveragePrecision(), SetDistance("chamfer"), SetDistance("hungarian")):
        with pytest.warns(UserWarning, match="before the ``update``"):
            value = metric.compute()
        assert value.isnan().all(), f"{metric}: {value}"


def test_metrics_of_different_settings_stay_apart_in_a_collection():
    """A collection computes only one of the metrics whose states are equal after the first batch."""
    target = Sets(torch.zeros(1, 3, 1), torch.tensor([[True, True, False]]))
    batches = [Sets(torch.zeros(1, 3, 1), torch.tensor([masks])) for masks in ([0.9, 0.9, 0.1], [0.9, 0.4, 0.1])]
    together = MetricCollection({"low": SetSizeAccuracy(0.3), "high": SetSizeAccuracy(0.5)})
    for predicted in batches:
        together.update(predicted, target)
    seen = together.compute()
    assert (seen["low_accuracy"], seen["high_accuracy"]) == (1.0, 0.5)
