"""Scenes as COCO annotations: boxes around what is rendered, ids that pycocotools follows, and resumable as ever."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pycocotools.coco import COCO

from setpredict.cli.main import run as command
from setpredict.config import SceneOptions
from setpredict.core.errors import UserError
from setpredict.data.clevr.camera import axes
from setpredict.data.clevr.states import ATTRIBUTES
from setpredict.data.locate import open_path
from setpredict.data.render.sampler import SampledScene, sample_scene
from setpredict.data.render.tracer import mark_instances, object_rows
from setpredict.data.render.writer import write_scenes

SIZE = 64


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("coco") / "my-images"
    options = ["--train", "12", "--val", "5", "--size", str(SIZE), "--min-objects", "1", "--max-objects", "4"]
    assert command(["scenes", str(place), "--coco", *options]) == 0
    return place


def traced_box(scene: SampledScene, index: int, width: int, height: int) -> list[float]:
    """Left, top, right, bottom of the pixels that the ray tracer gives to one object, without the others."""
    rows = object_rows(*(v[index : index + 1] for v in (scene.coords, scene.attributes, scene.rotation)))
    seen = np.empty((height, width), np.int16)
    mark_instances(rows, scene.camera, axes(scene.camera), seen)
    y, x = np.nonzero(seen >= 0)
    return [x.min(), y.min(), x.max() + 1, y.max() + 1]


def test_boxes_are_around_the_objects_that_are_rendered(out: Path, capsys: pytest.CaptureFixture):
    coco = COCO(str(out / "val.json"))
    assert len(coco.getImgIds()) == 5
    assert [c["name"] for c in coco.loadCats(coco.getCatIds())] == list(ATTRIBUTES["shape"])
    for image in coco.loadImgs(coco.getImgIds()):
        with Image.open(out / "images" / image["file_name"]) as picture:
            assert picture.size == (image["width"], image["height"]) == (96, SIZE)
        index = int(Path(image["file_name"]).stem.removeprefix("val_"))
        scene = sample_scene(0, "val", index, 0, 1, 4)
        found = coco.loadAnns(coco.getAnnIds(image["id"]))
        assert len(found) == len(scene.coords)
        for i, annotation in enumerate(found):
            x, y, w, h = annotation["bbox"]
            np.testing.assert_allclose([x, y, x + w, y + h], traced_box(scene, i, 96, SIZE), atol=1.05)
            names = [c["name"] for c in coco.loadCats([annotation["category_id"]])]
            assert names == [ATTRIBUTES["shape"][scene.attributes[i, list(ATTRIBUTES).index("shape")]]]
            assert annotation["area"] == pytest.approx(w * h, abs=0.01)


def test_the_folder_is_opened_as_boxes_with_a_test_split(out: Path):
    task = open_path(out, size=SIZE)
    assert (task.name, task.kind, task.max_size) == ("my-images", "boxes", 4)
    assert (len(task.train) + len(task.val), len(task.test)) == (12, 5)
    assert task.categories == {"category": ATTRIBUTES["shape"]}


def test_ids_are_unique_in_a_file(out: Path):
    content = json.loads((out / "train.json").read_text())
    for name in ("images", "annotations", "categories"):
        ids = [record["id"] for record in content[name]]
        assert ids == list(range(1, len(ids) + 1))


def test_a_folder_keeps_its_layout(out: Path, tmp_path: Path):
    options = SceneOptions(out, train=12, val=5, size=SIZE, min_objects=1, max_objects=4, coco=True)
    before = {p: p.read_bytes() for p in out.rglob("*.json")}
    write_scenes(options)  # nothing to do
    assert {p: p.read_bytes() for p in out.rglob("*.json")} == before
    with pytest.raises(UserError, match="my-images was begun with coco True, not False; use another folder"):
        write_scenes(replace(options, coco=False))
    with pytest.raises(UserError, match="leave out states_only"):
        write_scenes(replace(options, out=tmp_path / "b", states_only=True))


def test_folders_of_older_versions_are_still_resumed(tmp_path: Path):
    options = SceneOptions(tmp_path / "out", train=1, val=0, size=8)
    write_scenes(options)
    note = options.out / "generator.json"
    begun = json.loads(note.read_text())
    assert begun.pop("coco") is False
    note.write_text(json.dumps(begun))
    write_scenes(options)
    with pytest.raises(UserError, match="begun with coco False, not True"):
        write_scenes(replace(options, coco=True))
