"""Advice on images: the crowding of cells by counting, and the sentences that users read."""

from collections import Counter
from dataclasses import replace

import torch

from setpredict.build import make_task
from setpredict.config import DataConfig
from setpredict.report.image_advice import crowding, image_advice


def test_crowding_is_what_counting_finds():
    torch.manual_seed(0)
    mask, centers, sizes = torch.rand(20, 9) < 0.7, torch.rand(20, 9, 2), torch.rand(20, 9)
    for stride in (4, 8, 16):
        lost = 0
        for b in range(20):
            cells = Counter((int(x * 64 / stride), int(y * 64 / stride)) for x, y in centers[b][mask[b]].tolist())
            lost += sum(n - 1 for n in cells.values())
        assert abs(crowding(mask, centers, sizes, 64, stride).lost - lost / int(mask.sum())) < 1e-9


def test_scenes_get_advice_and_sets_do_not():
    scenes = make_task(DataConfig("scenes", size=32, target="box", train=20, val=4, test=4))
    found = image_advice(scenes)
    assert found[0].endswith("pixels wide in the median at 32×32, up to 10 per image.")
    assert any("share a cell" in line and "--input.stride 4" in line for line in found), found
    assert "20 training images are few" in found[-1]
    assert image_advice(replace(scenes, has_centers=False)) == []
    assert image_advice(make_task(DataConfig("multisets", train=8, val=8, test=8))) == []
