"""COCO annotation files."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from setpredict.build import make_task
from setpredict.config import DataConfig
from setpredict.core.errors import UserError
from setpredict.data.locate import open_path
from setpredict.data.sources.coco import coco


def content() -> dict:
    return {
        "images": [
            {"id": 10, "file_name": "a.png", "width": 40, "height": 20},
            {"id": 11, "file_name": "sub/b.png", "width": 10, "height": 10},
            {"id": 12, "file_name": "c.png", "width": 10, "height": 10},
        ],
        "annotations": [
            {"id": 1, "image_id": 10, "category_id": 7, "bbox": [4, 2, 20, 10]},
            {"id": 2, "image_id": 11, "category_id": 3, "bbox": [0, 0, 10, 10]},
            {"id": 3, "image_id": 10, "category_id": 3, "bbox": [36, 0, 8, 5], "iscrowd": 0},
            {"id": 4, "image_id": 10, "category_id": 3, "bbox": [0, 0, 1, 1], "iscrowd": 1},
        ],
        "categories": [{"id": 3, "name": "cat"}, {"id": 7, "name": "dog"}],
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    images = tmp_path / "train2017"
    (images / "sub").mkdir(parents=True)
    for name, size in (("a.png", (40, 20)), ("sub/b.png", (10, 10)), ("c.png", (10, 10))):
        Image.new("RGB", size).save(images / name)
    (tmp_path / "annotations").mkdir()
    return tmp_path


def write(root: Path, change=None, name: str = "instances_train2017.json") -> Path:
    made = content()
    if change:
        change(made)
    path = root / "annotations" / name
    path.write_text(json.dumps(made))
    return path


def test_boxes_and_categories(root: Path):
    task = coco(write(root), size=16, val=0.0)
    assert (task.kind, task.features, task.max_size, len(task.train)) == ("boxes", 6, 2, 3)
    assert task.categories == {"category": ("cat", "dog")}
    assert task.feature_names == ("left", "top", "right", "bottom", "category cat", "category dog")
    batch = task.train.batch(np.arange(3), 0)
    assert isinstance(batch.input, torch.Tensor)
    assert batch.input.shape == (3, 3, 16, 16)
    a, b, c = batch.target.to_list()
    assert a.tolist() == [pytest.approx([0.1, 0.1, 0.6, 0.6, 0, 1]), pytest.approx([0.9, 0, 1, 0.25, 1, 0])]
    assert b.tolist() == [[0, 0, 1, 1, 1, 0]]
    assert len(c) == 0  # an image without boxes is kept
    assert task.describe(a[0]) == "(0.10, 0.10, 0.60, 0.60) dog"


def test_only_boxes_that_count_must_be_of_known_categories(root: Path):
    def add(made, crowd: int):
        made["categories"].append({"id": 9, "name": "bird"})
        made["annotations"].append(
            {"id": 5, "image_id": 10, "category_id": 9.0, "bbox": [0, 0, 1, 1], "iscrowd": crowd}
        )

    known = {"size": 16, "val": 0.0, "categories": ("dog", "cat")}
    task = coco(write(root, lambda made: add(made, 1)), **known)
    assert task.categories == {"category": ("dog", "cat")}
    with pytest.raises(UserError, match="has boxes of 'bird', but the model knows dog, cat"):
        coco(write(root, lambda made: add(made, 0)), **known)


def test_agrees_with_pycocotools(root: Path, capsys):
    from pycocotools.coco import COCO

    def set_crowd(made):
        for annotation in made["annotations"]:
            annotation.setdefault("iscrowd", 0)

    path = write(root, set_crowd)
    oracle = COCO(str(path))
    task = coco(path, size=8, val=0.0)
    for image, boxes in zip(oracle.loadImgs(oracle.getImgIds()), task.train.batch(np.arange(3), 0).target.to_list()):
        theirs = oracle.loadAnns(oracle.getAnnIds([image["id"]], iscrowd=False))
        assert len(theirs) == len(boxes)
        for annotation, box in zip(theirs, boxes):
            x, y, w, h = annotation["bbox"]
            size = np.array([image["width"], image["height"]] * 2)
            assert box[:4].numpy() * size == pytest.approx(np.clip([x, y, x + w, y + h], 0, size), abs=1e-4)
            name = task.categories["category"][int(box[4:].argmax())]
            assert oracle.loadCats([annotation["category_id"]])[0]["name"] == name


def test_one_category_needs_no_one_hot_and_a_test_file_is_the_test_split(root: Path):
    def one(made):
        made["categories"] = made["categories"][:1]
        for annotation in made["annotations"]:
            annotation["category_id"] = 3

    def fewer(made):
        one(made)
        made["images"] = made["images"][:1]
        made["annotations"] = made["annotations"][:1]

    test = write(root, fewer, "instances_val2017.json")
    task = coco(write(root, one), test, size=8, val=0.34, test_images=root / "train2017")
    assert (task.features, task.groups) == (4, {})
    assert (len(task.train), len(task.val), len(task.test)) == (2, 1, 1)
    neighbor = coco(root / "annotations" / "instances_train2017.json", size=8, test_images=root / "train2017")
    assert len(neighbor.test) == 1  # the file next to it is the test split
    with pytest.raises(UserError, match="its categories differ from those of the training file"):
        coco(write(root), test, size=8, test_images=root / "train2017")


def test_too_many_boxes_and_missing_images(root: Path):
    path = write(root)
    with pytest.warns(UserWarning, match="skipped 1 of 3 images of .*: more than 1 boxes"):
        task = coco(path, size=8, max_size=1, val=0.0)
    assert (len(task.train), task.max_size) == (2, 1)
    (root / "train2017" / "sub" / "b.png").unlink()
    with pytest.warns(UserWarning, match=r"skipped 1 of 3 images of instances_train2017.json: their image is not in"):
        assert len(coco(path, size=8, val=0.0).train) == 2


@pytest.mark.filterwarnings("ignore:skipped")
def test_each_max_size_has_its_own_images(root: Path, monkeypatch):
    path = write(root)
    for most in (None, 1):
        coco(path, size=8, max_size=most)
    monkeypatch.setattr("setpredict.data.io.images._build", None)  # decoding an image again would fail
    assert [len(coco(path, size=8, max_size=most, val=0.0).train) for most in (None, 1)] == [3, 2]


def test_each_annotation_file_has_its_own_images(root: Path, monkeypatch):
    complete = write(root)
    part = write(root, lambda made: made["images"].pop(), "train_small.json")
    for path in (complete, part):
        coco(path, images=root / "train2017", size=8)
    monkeypatch.setattr("setpredict.data.io.images._build", None)
    assert [len(coco(path, images=root / "train2017", size=8, val=0.0).train) for path in (complete, part)] == [3, 2]


def set_value(where: str, index: int, name: str, value):
    def change(made):
        made[where][index][name] = value

    return change


def drop(where: str, index: int, name: str):
    def change(made):
        del made[where][index][name]

    return change


@pytest.mark.parametrize(("change", "message"), [
    (set_value("annotations", 1, "image_id", 99), "annotations 1: image_id 99 is not the id of an image"),
    (set_value("annotations", 0, "category_id", 5), "annotations 0: category_id 5 is not the id of a category"),
    (set_value("annotations", 2, "bbox", [1, 2, 3]), r"annotations 2: bbox must be \[x, y, width, .* got \[1, 2, 3\]"),
    (set_value("annotations", 2, "bbox", [1, 2, -3, 4]), r"annotations 2: bbox must be"),
    (set_value("images", 1, "width", 0), r"images 1: width and height must be positive, got \[0, 10\]"),
    (drop("annotations", 1, "bbox"), "annotations 1: field 'bbox' is missing"),
    (drop("images", 0, "file_name"), "images 0: field 'file_name' is missing"),
    (drop("categories", 0, "name"), "categories 0: field 'name' is missing"),
    (lambda made: made["annotations"].append("x"), "annotations 4: field 'image_id' is missing"),
    (set_value("annotations", 2, "bbox", [1, 2, 3, 10**400]), r"annotations 2: bbox must be .* got \[1, 2, 3, 1000"),
    (set_value("annotations", 2, "image_id", [10]), r"annotations 2: image_id must be an integer or text, got \[10\]"),
    (set_value("annotations", 2, "category_id", None), "annotations 2: category_id must be an integer or .* got null"),
    (set_value("annotations", 2, "image_id", 10**400), "annotations 2: image_id 1000.* is not the id of an image"),
    (set_value("images", 1, "width", 10**400), r"images 1: width and height must be positive, got \[1000"),
    (set_value("images", 1, "file_name", 5), "images 1: file_name must be text, got 5"),
    (set_value("categories", 0, "id", float("inf")), "categories 0: id must be an integer or text, got Infinity"),
    (lambda made: made.pop("images"), "has no list 'images': not a COCO annotation file"),
    (lambda made: made["categories"].clear(), "has no categories"),
    (set_value("images", 2, "id", 10), 'images 2: "a.png" has the same id, 10'),
    (set_value("categories", 1, "id", 3), 'categories 1: "cat" has the same id, 3'),
])  # fmt: skip
def test_bad_files(root: Path, change, message: str):
    path = write(root, change)
    with pytest.raises(UserError, match=message) as error:
        coco(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_truncated_and_missing(root: Path):
    path = write(root)
    path.write_text(path.read_text()[:-9])
    with pytest.raises(UserError, match=r"instances_train2017.json is not valid JSON"):
        coco(path)
    with pytest.raises(UserError, match=r"annotation file .*no.json not found"):
        coco(root / "no.json")


def test_a_folder_in_the_layout_of_coco(root: Path):
    write(root)
    write(root, name="captions_train2017.json")
    (root / "val2017").mkdir()
    Image.new("RGB", (40, 20)).save(root / "val2017" / "a.png")

    def one_image(made):
        made["images"], made["annotations"] = made["images"][:1], made["annotations"][:1]

    write(root, one_image, "instances_val2017.json")
    task = coco(root, size=8, val=0.0)
    assert (task.name, len(task.train), len(task.test)) == ("instances_train2017", 3, 1)
    with pytest.raises(UserError, match=r"no \*train\*.json found in"):
        coco(root / "train2017")


def test_other_json_beside_the_annotations(root: Path):
    folder = root / "train2017"
    write(root).rename(folder / "my_train.json")
    (folder / "a_training_log.json").write_text('{"loss": [1, 2]}')
    for task in (coco(folder, size=8, val=0.0), open_path(folder, size=8)):
        assert task.name == "my_train"


@pytest.mark.parametrize(
    ("boxes", "wrong"),
    [
        ([[10, 12, 38, 19], [5, 5, 39, 20]], "2 of 2 boxes reach beyond their image"),
        ([[0.1, 0.2, 0.5, 0.4], [0.0, 0.0, 1.0, 1.0]], "all boxes are in the first pixel of their image"),
    ],
)
def test_boxes_that_are_no_corner_and_size_in_pixels(root: Path, boxes: list, wrong: str):
    def change(made):
        made["annotations"] = [
            {"id": i, "image_id": made["images"][0]["id"], "category_id": 3, "bbox": box, "iscrowd": 0}
            for i, box in enumerate(boxes)
        ]

    with pytest.warns(UserWarning, match=f"{wrong}. A bbox is x, y, width, height"):
        task = coco(write(root, change), size=8, val=0.0)
    batch = task.train.batch(np.arange(len(task.train)), 0)
    assert batch.target.elements.max() <= 1


def test_ids_may_be_written_as_floats(root: Path):
    def with_points(made):
        for annotation in made["annotations"]:
            annotation["category_id"] = float(annotation["category_id"])

    assert len(coco(write(root, with_points), size=8, val=0.0).train) == 3


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5000, "{"], ids=["deep", "digits", "cut"])
def test_json_that_python_cannot_read(root: Path, text: str):
    path = write(root)
    path.write_text(text)
    with pytest.raises(UserError, match=r"instances_train2017.json is not valid JSON: .{5,100}$"):
        coco(path)


def test_images_outside_the_folder_are_an_error_unless_allowed(root: Path):
    Image.new("RGB", (10, 10)).save(root / "secret.png")
    write(root, set_value("images", 2, "file_name", "../secret.png"))
    with pytest.raises(UserError, match=r"train2017.json: image ../secret.png is .*/secret.png, outside .*2017"):
        coco(root, size=16)
    configured = make_task(DataConfig("coco", str(root), size=16, allow_outside=True))
    for task in (configured, open_path(root, size=16, allow_outside=True)):
        assert len(task.train) + len(task.val) == 3


def test_categories_of_a_test_file_may_be_in_another_order(root: Path):
    test = write(root, lambda made: made["categories"].reverse(), "instances_val2017.json")
    task = coco(write(root), test, size=8, val=0.0, test_images=root / "train2017")
    assert task.categories == {"category": ("cat", "dog")}
    expected, found = (split.batch(np.arange(3), 0).target for split in (task.train, task.test))
    assert torch.equal(found.elements, expected.elements)


def test_two_ids_may_have_the_same_name(root: Path):
    """As in exports that have a class and its supercategory, of the same name and without boxes."""
    task = coco(write(root, lambda made: made["categories"].append({"id": 0, "name": "dog"})), size=8, val=0.0)
    assert task.categories == {"category": ("cat", "dog")}
    assert task.train.batch(np.arange(1), 0).target.elements[0, :, 4:].tolist() == [[0, 1], [1, 0]]


def test_images_are_not_searched_beside_the_data_set(root: Path):
    data = root / "coins"
    (data / "images").mkdir(parents=True)
    (root / "train").mkdir()  # of something else
    for name, size in (("a.png", (40, 20)), ("b.png", (10, 10)), ("c.png", (10, 10))):
        Image.new("RGB", size, "white").save(data / "images" / name)
        Image.new("RGB", size, "black").save(root / "train" / name)
    made = content()
    made["images"][1]["file_name"] = "b.png"
    (data / "train.json").write_text(json.dumps(made))
    input = coco(data, size=8, val=0.0).train.batch(np.arange(3), 0).input
    assert isinstance(input, torch.Tensor)
    assert input.min() == 1
