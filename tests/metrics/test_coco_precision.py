"""COCO's average precision against pycocotools: several classes, ambiguous overlaps, ties of scores, empty images."""

import contextlib
import io
from typing import Any

import numpy as np
import pytest
import torch
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from setpredict import NotFinite, Sets
from setpredict.metrics import CocoAveragePrecision
from setpredict.metrics.coco import CocoPrecision


def make_data(images: int, N: int, classes: int, seed: int = 0, noise: float = 0.03) -> tuple[Sets, Sets]:
    """Crowded boxes: every detection overlaps several targets, some of another class; scores have many ties."""
    g = torch.Generator().manual_seed(seed)
    low = 0.5 * torch.rand(images, N, 2, generator=g)
    boxes = torch.cat([low, low + 0.1 + 0.4 * torch.rand(images, N, 2, generator=g)], dim=-1)
    kinds = torch.nn.functional.one_hot(torch.randint(0, classes, (images, N), generator=g), classes).float()
    target = torch.cat([boxes, kinds], dim=-1)
    predicted = target + noise * torch.randn(target.shape, generator=g)
    predicted[..., 4:] += 0.6 * torch.rand(images, N, classes, generator=g)
    scores = torch.randint(0, 9, (images, N), generator=g) / 8  # zeros are no detections
    mask = torch.rand(images, N, generator=g) < 0.7
    mask[0] = False
    return Sets(predicted, scores), Sets(target * mask[..., None], mask)


def pycocotools(predicted: Sets, target: Sets, classes: int) -> CocoPrecision:
    truth: Any = {"images": [{"id": i} for i in range(len(target))], "info": {}, "annotations": []}
    truth["categories"] = [{"id": c, "name": str(c)} for c in range(classes)]
    for i, m in target.mask.nonzero().tolist():
        kind = int(target.elements[i, m, 4:].argmax()) if classes > 1 else 0
        one = {"id": 1 + len(truth["annotations"]), "image_id": i, "category_id": kind, "iscrowd": 0}
        truth["annotations"].append(one | box(target.elements[i, m]))
    found: Any = [
        {"image_id": i, "category_id": int(predicted.elements[i, n, 4:].argmax()) if classes > 1 else 0,
         "score": predicted.mask[i, n].item(), **box(predicted.elements[i, n])}
        for i, n in (predicted.mask > 0).nonzero().tolist()
    ]  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        gt = COCO()
        gt.dataset = truth
        gt.createIndex()
        run = COCOeval(gt, gt.loadRes(found), "bbox")
        run.evaluate()
        run.accumulate()
        run.summarize()
    precision = run.eval["precision"][:, :, :, 0, -1]  # (thresholds, recalls, classes)
    own = {c: p for c in range(classes) if (p := precision[:, :, c]).max() > -1}
    each = {c: (float(p.mean()), float(p[0].mean())) for c, p in own.items()}
    ap, ap50, ap75 = (float(s) for s in run.stats[:3])
    return CocoPrecision(ap, ap50, ap75, each)


def box(corners: torch.Tensor) -> dict:
    x0, y0, x1, y1 = corners[:4].double().tolist()
    w, h = max(x1 - x0, 0.0), max(y1 - y0, 0.0)
    return {"bbox": [x0, y0, w, h], "area": w * h}


def measured(predicted: Sets, target: Sets, classes: int, batch: int = 7) -> CocoPrecision:
    metric = CocoAveragePrecision({"category": (4, 4 + classes)} if classes > 1 else {})
    for part in torch.arange(len(target)).flip(0).split(batch):  # in any order: `index` decides ties
        metric.update(predicted[part], target[part], part)
    return metric.compute()


@pytest.mark.parametrize("classes", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_the_numbers_are_those_of_pycocotools(classes: int, seed: int):
    predicted, target = make_data(40, 9, classes, seed)
    ours, theirs = measured(predicted, target, classes), pycocotools(predicted, target, classes)
    assert 0.01 < ours.ap < ours.ap50 < 0.99
    assert (ours.ap, ours.ap50, ours.ap75) == pytest.approx((theirs.ap, theirs.ap50, theirs.ap75), abs=1e-12)
    assert ours.classes.keys() == theirs.classes.keys()
    for kind, values in theirs.classes.items():
        assert ours.classes[kind] == pytest.approx(values, abs=1e-12), f"class {kind}"


def test_only_a_hundred_detections_per_image_and_class_count():
    predicted, target = make_data(4, 130, 2, noise=0.01)
    ours, theirs = measured(predicted, target, 2), pycocotools(predicted, target, 2)
    assert ours.ap == pytest.approx(theirs.ap, abs=1e-12)


def test_a_class_without_ground_truth_is_left_out_and_one_without_detections_counts_as_zero():
    target = Sets.from_list([[[0, 0, 1, 1, 1, 0, 0], [0, 0, 0.5, 0.5, 0, 1, 0]]])
    right, wrong = target.elements[0, 0], torch.tensor([0.0, 0, 0.5, 0.5, 0, 0, 1])
    predicted = Sets(torch.stack([right, wrong])[None], torch.tensor([[0.9, 0.8]]))
    found = measured(predicted, target, 3)
    assert found == CocoPrecision(0.5, 0.5, 0.5, {0: (1.0, 1.0), 1: (0.0, 0.0)})


def test_without_ground_truths_there_is_no_score():
    empty = Sets(torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.bool))
    found = measured(Sets(torch.rand(2, 3, 4), torch.rand(2, 3)), empty, 1)
    assert np.isnan([found.ap, found.ap50, found.ap75]).all()
    assert found.classes == {}


def test_values_that_are_not_finite_are_named():
    target = Sets.from_list([[[0.0, 0, 1, 1]]])
    with pytest.raises(NotFinite, match="box 0 of image 0 is nan"):
        CocoAveragePrecision().update(Sets(target.elements * torch.nan, torch.ones(1, 1)), target)


def test_scores_that_are_not_finite_are_named():
    predicted, target = make_data(2, 3, 1)
    predicted.mask[1, 2] = torch.nan
    with pytest.raises(NotFinite, match="score"):
        CocoAveragePrecision().update(predicted, target)
