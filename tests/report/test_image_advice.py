"""Advice on images: the crowding of cells by counting, and the sentences that users read."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from setpredict.build import make_task
from setpredict.config import DataConfig
from setpredict.data import open_path
from setpredict.encoders.images.dense import Cells, assign_cells
from setpredict.report.image_advice import AT_ONCE, crowding, image_advice


def test_crowding_is_what_counting_finds():
    torch.manual_seed(0)
    mask, centers, sizes = torch.rand(20, 9) < 0.7, torch.rand(20, 9, 2), torch.rand(20, 9)
    for stride in (4, 8, 16):
        lost = 0
        for b in range(20):
            cells = Counter((int(x * 64 / stride), int(y * 64 / stride)) for x, y in centers[b][mask[b]].tolist())
            lost += sum(n - 1 for n in cells.values())
        assert abs(crowding(mask, centers, sizes, 64, stride).lost - lost / int(mask.sum())) < 1e-9


def test_few_images_are_compared_at_a_time(monkeypatch: pytest.MonkeyPatch):
    counts = []

    def counted(mask: torch.Tensor, *given) -> Cells:
        counts.append(len(mask))
        return assign_cells(mask, *given)

    monkeypatch.setattr("setpredict.report.image_advice.assign_cells", counted)
    crowding(torch.ones(100, 5, dtype=torch.bool), torch.rand(100, 5, 2), torch.rand(100, 5), 64, 8)
    assert (sum(counts), max(counts)) == (100, AT_ONCE)


@pytest.mark.parametrize("element", [[4, 5], [4, 5, "cat"], [4, 5, 4, 9]])
def test_points_and_boxes_without_width_get_advice(element: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SETPREDICT_CACHE", str(tmp_path / "cache"))
    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    lines = [json.dumps({"input": "a.png", "set": [element, element]})] * 10
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    if len(element) == 3:
        (tmp_path / "task.json").write_text('{"kind": "points"}')
    found = image_advice(open_path(tmp_path, size=64))
    boxes = [
        "Objects are 0 pixels wide in the median at 64×64, up to 2 per image.",
        "That is small: try --data.size 512.",
    ]
    assert found[: 1 + (len(element) == 4)] == (boxes if len(element) == 4 else ["Up to 2 points per image."])


def test_scenes_get_advice_and_sets_do_not():
    scenes = make_task(DataConfig("scenes", size=32, target="box", train=20, val=4, test=4))
    found = image_advice(scenes)
    assert found[0].endswith("pixels wide in the median at 32×32, up to 10 per image.")
    assert any("share a cell" in line and "--input.stride 4" in line for line in found), found
    assert "20 training images are few" in found[-1]
    assert image_advice(replace(scenes, has_centers=False)) == []
    assert image_advice(make_task(DataConfig("multisets", train=8, val=8, test=8))) == []
