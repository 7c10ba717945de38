"""`setpredict data check`: a summary of any data set."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from setpredict.config import SceneOptions
from setpredict.data.locate import open_path
from setpredict.data.render.writer import write_scenes
from setpredict.data.sources.multisets import multisets
from setpredict.data.sources.polygons import polygons
from setpredict.data.sources.scenes import scenes
from setpredict.report.data_check import check, size_bins
from setpredict.report.figures.contact_sheet import contact_sheet
from setpredict.report.figures.pictures import save_validation_picture
from setpredict.report.tables.objects import object_blocks, terminal_table
from setpredict.report.watched import Watched
from setpredict.sets import Prediction


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has its own cache folder."""
    monkeypatch.setenv("SETPREDICT_CACHE", str(tmp_path / "cache"))


def run(path: Path, tmp_path: Path):
    text = io.StringIO()
    summary = check(path, out=tmp_path / "sheet.png", console=Console(file=text, width=120))
    with Image.open(summary.sheet) as sheet:
        sheet.load()
        assert np.asarray(sheet.convert("L")).std() > 5  # something is drawn
    return summary, text.getvalue()


def test_folder(tmp_path: Path):
    records = [{"input": [i], "set": [[i, 10.0 * j, "red" if j else "blue"] for j in range(i % 3)]} for i in range(12)]
    (tmp_path / "train.jsonl").write_text("\n".join(json.dumps(r) for r in records))
    (tmp_path / "val.jsonl").write_text(json.dumps(records[2]))
    summary, text = run(tmp_path, tmp_path)
    assert summary.counts == {"train": 12, "val": 1, "test": 1}
    assert summary.sizes == {"train": {0: 4, 1: 4, 2: 4}, "val": {2: 1}, "test": {2: 1}}
    assert summary.ranges == {"x0": (1, 11), "x1": (0, 10)}
    assert summary.categories == {"x2": {"blue": 8, "red": 4}}
    for word in ("set size", "x0", "11", "blue", "sheet.png", "█"):
        assert word in text


def test_names_are_shown_as_they_are(tmp_path: Path):
    records = [{"input": [i], "set": [[i, 1.0, f"[/{i % 2}] $"], [i, 2.0, "$_"]]} for i in range(6)]
    (tmp_path / "train.jsonl").write_text("\n".join(json.dumps(r) for r in records))
    (tmp_path / "task.json").write_text('{"features": ["speed [m]", "cost_$", "kind [/min]"], "kind": "states"}')
    _, text = run(tmp_path, tmp_path)
    for word in ("speed [m]", "kind [/min]", "[/1] $"):
        assert word in text
    task = open_path(tmp_path)
    batch = next(iter(task.loader("train", 2)))
    prediction = Prediction(batch.target.elements[None], batch.target.mask[None].float())
    save_validation_picture(task, batch, prediction, tmp_path / "picture.png")
    written, watched = io.StringIO(), Watched(batch, prediction, torch.zeros(1, 2))
    Console(file=written, width=120).print(terminal_table(task, object_blocks(task, watched, 0, [0])))
    assert "kind [/min]" in written.getvalue()


def test_clevr_layout(tmp_path: Path):
    out = write_scenes(SceneOptions(tmp_path / "made", train=5, val=2, size=16))
    summary, text = run(out, tmp_path)
    assert sum(summary.counts.values()) == 7
    assert set(summary.categories) == {"material", "color", "shape", "size"}
    assert "rubber" in text


@pytest.mark.slow
def test_mnist(real_data: Path, tmp_path: Path):
    summary, text = run(real_data / "mnist", tmp_path)
    assert summary.counts == {"train": 57_000, "val": 3_000, "test": 10_000}
    sizes = [n for counts in summary.sizes.values() for n in counts]
    assert (min(sizes), max(sizes)) == (32, 342)
    assert "332-342" in text


def test_coco_file_and_folder(tmp_path: Path):
    (tmp_path / "annotations").mkdir()
    (tmp_path / "train").mkdir()
    Image.new("RGB", (20, 20), (200, 200, 200)).save(tmp_path / "train" / "a.png")
    made = {
        "images": [{"id": i, "file_name": "a.png", "width": 20, "height": 20} for i in range(3)],
        "annotations": [{"image_id": i, "category_id": 1, "bbox": [2, 3, 10, 12]} for i in range(3)],
        "categories": [{"id": 1, "name": "thing"}],
    }
    path = tmp_path / "annotations" / "instances_train.json"
    path.write_text(json.dumps(made))
    for place in (path, tmp_path):
        summary, _ = run(place, tmp_path)
        assert summary.ranges["left"] == pytest.approx((0.1, 0.1))


@pytest.mark.parametrize("task", [
    multisets(dim=1), multisets(dim=2), multisets(dim=5), polygons(), scenes("box", size=24), scenes("state", size=24),
    scenes("box", states_only=True),
], ids=lambda t: f"{t.name}-{t.features}")  # fmt: skip
def test_contact_sheet_of_every_kind(task, tmp_path: Path):
    with Image.open(contact_sheet(task, tmp_path / "a.png", 3)) as sheet:
        assert np.asarray(sheet.convert("L")).std() > 5


def test_histogram_has_at_most_16_rows_and_counts_everything():
    sizes = {"train": {n: n for n in range(5, 340)}, "val": {400: 3}}
    rows = size_bins(sizes)
    assert len(rows) <= 16
    assert [sum(column) for column in zip(*(counts for _, counts in rows))] == [sum(range(5, 340)), 3]


@pytest.mark.parametrize("element", [[3], [3, "red"]])
@pytest.mark.parametrize("image", [False, True])
def test_points_on_a_line(tmp_path: Path, element: list, image: bool):
    Image.new("RGB", (40, 20), (90, 90, 90)).save(tmp_path / "a.png")
    records = [{"input": "a.png" if image else [i], "set": [element, [i, *element[1:]]]} for i in range(4)]
    (tmp_path / "train.jsonl").write_text("\n".join(json.dumps(r) for r in records))
    (tmp_path / "task.json").write_text('{"kind": "points"}')
    summary, _ = run(tmp_path, tmp_path)
    assert "points with" in summary.what
    low, high = summary.ranges["x"]
    assert low <= high < 3.001
