"""Average precision of boxes against pycocotools, on data where no box has a second choice."""

import contextlib
import io
from typing import Any

import numpy as np
import pytest
import torch
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from setpredict.metrics import box_average_precision, box_candidates
from setpredict.metrics.average_precision import _true_ranks

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
IMAGES, N, M = 60, 8, 5


@pytest.fixture(scope="module")
def boxes():
    """Targets far apart, so that each detection overlaps at most one; some are detected several times, others never."""
    g = torch.Generator().manual_seed(0)
    low = torch.stack([torch.arange(M) / M, torch.zeros(M)], dim=-1) + 0.01  # (M, 2)
    low = low + 0.02 * torch.rand(IMAGES, M, 2, generator=g)
    targets = torch.cat([low, low + 0.1 + 0.05 * torch.rand(IMAGES, M, 2, generator=g)], dim=-1)
    mask = torch.rand(IMAGES, M, generator=g) < 0.8
    shown = torch.randint(0, M, (IMAGES, N), generator=g)
    noise = 0.006 * torch.randn(IMAGES, N, 4, generator=g)
    detections = targets.gather(1, shown[..., None].expand(-1, -1, 4)) + noise
    scores = torch.randperm(IMAGES * N, generator=g).view(IMAGES, N) / (IMAGES * N)
    return detections.double(), scores.double(), targets.double(), mask


@pytest.fixture(scope="module")
def coco(boxes):
    detections, scores, targets, mask = boxes
    truth: Any = {"images": [{"id": i} for i in range(IMAGES)], "categories": [{"id": 1, "name": "box"}], "info": {}}
    truth["annotations"] = [
        {"id": 1 + len(targets[0]) * i + m, "image_id": i, "category_id": 1, "iscrowd": 0, **_box(targets[i, m])}
        for i, m in mask.nonzero().tolist()
    ]
    found: Any = [
        {"image_id": i, "category_id": 1, "score": scores[i, n].item(), **_box(detections[i, n])}
        for i in range(IMAGES)
        for n in range(N)
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        gt = COCO()
        gt.dataset = truth
        gt.createIndex()
        run = COCOeval(gt, gt.loadRes(found), "bbox")
        run.params.iouThrs = np.array(THRESHOLDS)
        run.evaluate()
        run.accumulate()
    return run


def _box(corners: torch.Tensor) -> dict:
    x0, y0, x1, y1 = corners.tolist()
    return {"bbox": [x0, y0, x1 - x0, y1 - y0], "area": (x1 - x0) * (y1 - y0)}


def test_same_true_positives(boxes, coco):
    detections, scores, targets, mask = boxes
    agreement, target = box_candidates(detections, targets, mask)
    unique = torch.where(target >= 0, target + M * torch.arange(IMAGES)[:, None], -1)
    everything = coco.params.areaRng[0]
    theirs = torch.zeros(len(THRESHOLDS), IMAGES, N, dtype=torch.bool)
    for result in coco.evalImgs:
        if result is not None and result["aRng"] == everything:
            element = [(d - 1) % N for d in result["dtIds"]]  # ids number the detections from 1, in order of images
            theirs[:, result["image_id"], element] = torch.from_numpy(result["dtMatches"] > 0)
    order = torch.sort(scores.flatten(), descending=True, stable=True).indices
    for k, threshold in enumerate(THRESHOLDS):
        ours = torch.zeros(IMAGES * N, dtype=torch.bool)
        ours[order[_true_ranks(agreement.flatten()[order], unique.flatten()[order], threshold)]] = True
        differ = (ours.view(IMAGES, N) != theirs[k]).nonzero().tolist()
        assert not differ, f"[image, detection] that differ at IoU {threshold}: {differ}"
    assert theirs[0].sum() > theirs[3].sum() > 10


def test_average_precision_within_a_hundredth(boxes, coco):
    detections, scores, targets, mask = boxes
    ours = box_average_precision(detections, scores, targets, mask, THRESHOLDS)
    theirs = torch.from_numpy(coco.eval["precision"][:, :, 0, 0, -1].mean(axis=1))  # the mean of 101 recalls
    assert ours.tolist() == pytest.approx(theirs.tolist(), abs=0.01)
    assert 0.05 < ours[-1] < ours[0] < 0.95
