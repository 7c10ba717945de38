"""Your own data: folders of jsonl files, valid and invalid."""

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
from setpredict.data.sources.folder import folder
from setpredict.sets import Sets


def write(root: Path, name: str, records: list) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
    (root / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return root


VECTORS = [
    {"input": [1, 20], "set": [[0, 100], [10, 300]]},
    {"input": [3, 10], "set": [[5, 200]]},
    {"input": [2, 10], "set": []},
]


def test_vectors_to_points(tmp_path: Path):
    root = write(tmp_path, "train", VECTORS)
    write(root, "val", [{"input": [1, 10], "set": [[20, 100]]}])
    write(root, "test", [{"input": [0, 0], "set": [[0, 0]] * 5}])
    task = folder(root)
    assert (task.input_kind, task.input_size, task.kind) == ("vector", 2, "points")
    assert (task.max_size, task.features, task.variable) == (5, 2, True)
    batch = task.train.batch(np.arange(3), 0)
    assert isinstance(batch.input, torch.Tensor)
    assert batch.input.tolist() == [[0, 1], [1, 0], [0.5, 0]]  # inputs are scaled by the training range, too
    assert [s.tolist() for s in batch.target.to_list()] == [[[0, 0], [1, 1]], [[0.5, 0.5]], []]
    assert task.denormalize(batch.target.to_list()[0]).tolist() == [[0, 100], [10, 300]]
    (outside,) = task.val.batch(np.arange(1), 0).target.to_list()  # values outside the training range are allowed
    assert outside.tolist() == [[2, 0]]
    mine = task.normalize_input(torch.tensor([[1.0, 20.0]]))
    for same in ([[1, 20]], torch.tensor([[1, 20]]), np.array([[1.0, 20.0]], np.float32)):
        torch.testing.assert_close(task.normalize_input(same), mine, check_dtype=False)
    with pytest.raises(UserError, match=r"have 2 numbers, got shape \(1, 1\)"):
        task.normalize_input([[1.0]])
    assert isinstance(mine, torch.Tensor)
    assert mine.tolist() == [[0, 1]]


def test_a_folder_for_evaluation_only(tmp_path: Path):
    write(tmp_path, "val", VECTORS)
    with pytest.raises(UserError, match=r"train.jsonl not found"):
        folder(tmp_path)
    task = folder(tmp_path, without_train=True)
    assert [len(task.split(name)) for name in ("train", "val", "test", "all")] == [0, 3, 3, 3]
    assert task.val.batch(np.arange(3), 0).target.sizes.tolist() == [2, 1, 0]


def test_sets_to_sets_with_categories(tmp_path: Path):
    write(tmp_path, "train", [
        {"input": [[1.0], [2.0]], "set": [[1.5, "cat", 7], [0.5, "dog", 7]]},
        {"input": [[3.0]], "set": [[1.0, "cat", 7]]},
    ])  # fmt: skip
    write(tmp_path, "val", [{"input": [], "set": [[1.0, "dog", 7]]}])
    (tmp_path / "task.json").write_text(json.dumps({"features": ["age", "animal", "legs"], "kind": "vectors"}))
    task = folder(tmp_path)
    assert task.feature_names == ("age", "animal cat", "animal dog", "legs")
    assert task.groups == {"animal": (1, 3)}
    assert task.categories == {"animal": ("cat", "dog")}
    batch = task.train.batch(np.arange(2), 0)
    assert isinstance(batch.input, Sets)
    assert [s.tolist() for s in batch.input.to_list()] == [[[0.0], [0.5]], [[1.0]]]
    assert batch.target.to_list()[0].tolist() == [[1, 1, 0, 0], [0, 0, 1, 0]]
    assert task.describe(torch.tensor([1.0, 0.2, 0.7, 0.0])) == "(1.50, 7.00) dog"
    raw = task.normalize_input(Sets.from_list([[[1.0], [2.0]], [[3.0]]]))
    same = task.normalize_input([[[1.0], [2.0]], [[3.0]]])
    assert isinstance(same, Sets)
    assert isinstance(raw, Sets)
    assert torch.equal(same.elements, raw.elements)
    assert isinstance(raw, Sets)
    assert torch.equal(raw.elements, batch.input.elements)
    empty = task.val.batch(np.arange(1), 0).input
    assert isinstance(empty, Sets)
    assert empty.sizes.tolist() == [0]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for i in range(4):
        Image.new("RGB", (40, 20), (60 * i, 0, 0)).save(tmp_path / f"{i}.png")
    records = [{"input": f"{i}.png", "set": [[4, 2, 36, 12 + i, "cat" if i % 2 else "dog"]]} for i in range(4)]
    return write(tmp_path, "train", records)


def test_images_to_boxes_in_pixels(pictures: Path):
    task = folder(pictures, size=16, val=0.25)
    assert (task.input_kind, task.input_size, task.kind, task.features) == ("image", 16, "boxes", 6)
    assert (len(task.train), len(task.val)) == (3, 1)
    assert task.test is task.val
    for split in ("train", "val"):
        for batch in task.loader(split, 1):
            (box,) = batch.target.to_list()[0]
            i = round(float(task.denormalize(box)[3])) - 12
            assert box[:4].tolist() == pytest.approx([0.1, 0.1, 0.9, (12 + i) / 20])
            assert isinstance(batch.input, torch.Tensor)
            assert batch.input[0, 0].mean() == pytest.approx(60 * i / 255)


def test_pixels_need_images_of_one_size(pictures: Path):
    Image.new("RGB", (30, 20)).save(pictures / "2.png")
    with pytest.raises(UserError, match=r"train.jsonl, line 3: the image is 30×20, others are 40×20: .*from 0 to 1"):
        folder(pictures)
    write(pictures, "train", [{"input": f"{i}.png", "set": [[0.1, 0.1, 0.5, 0.6]]} for i in range(4)])
    task = folder(pictures, size=8)
    assert task.train.batch(np.array([0]), 0).target.to_list()[0][0].tolist() == pytest.approx([0.1, 0.1, 0.5, 0.6])


def test_fractions_that_were_rounded_are_not_pixels(pictures: Path):
    boxes = [[0.1, 0.1, 0.5, 0.6], [0.2, 0.2, 1.0000005, 0.9], [0, 0, 1, 1], [0, 0, 0.5, 1.04]]
    write(pictures, "train", [{"input": f"{i}.png", "set": [box]} for i, box in enumerate(boxes)])
    task = folder(pictures, size=16, val=0.0)
    assert [task.train.batch(np.array([i]), 0).target.to_list()[0][0].tolist() for i in range(4)] == [
        pytest.approx(box) for box in boxes
    ]
    write(pictures, "train", [{"input": f"{i}.png", "set": [[0.1, 0.1, 0.5, 1 + 0.2 * i]]} for i in range(4)])
    with pytest.raises(UserError, match=r"coordinates go up to 1.6: neither fractions of the image, from 0 to 1, nor"):
        folder(pictures)


@pytest.mark.parametrize("way", ["parent", "absolute", "link", "folder link"])
def test_images_outside_the_folder_are_an_error_unless_allowed(pictures: Path, tmp_path_factory, way: str):
    secret = tmp_path_factory.mktemp("other") / "secret.png"
    Image.new("RGB", (40, 20)).save(secret)
    (pictures / "link.png").symlink_to(secret)
    (pictures / "more").symlink_to(secret.parent)
    names = {"parent": f"../{secret.parent.name}/secret.png", "absolute": str(secret), "link": "link.png",
             "folder link": "more/secret.png"}  # fmt: skip
    write(pictures, "test", [{"input": "0.png", "set": []}, {"input": names[way], "set": []}])
    with pytest.raises(
        UserError, match=r"test.jsonl, line 2: image .* is .*/secret.png, outside .*--data.allow-outside"
    ):
        folder(pictures, size=8)
    with pytest.raises(UserError, match=r"test.jsonl, line 2"):
        make_task(DataConfig("folder", str(pictures), size=8))
    for task in (folder(pictures, size=8, allow_outside=True),
                 make_task(DataConfig("folder", str(pictures), size=8, allow_outside=True))):  # fmt: skip
        assert len(task.test) == 2


def test_links_within_the_folder_and_a_linked_folder_are_fine(pictures: Path, tmp_path_factory):
    (pictures / "same.png").symlink_to(pictures / "0.png")
    linked = tmp_path_factory.mktemp("other") / "data"
    linked.symlink_to(pictures)
    write(pictures, "test", [{"input": "same.png", "set": []}, {"input": str(pictures / "1.png"), "set": []}])
    assert len(folder(linked, size=8).test) == 2


@pytest.mark.parametrize(("name", "shown"), [("a\0.png", r"a.\.png"), ("data:" + 5000 * "A", "data:A{195}")])
def test_a_name_that_no_file_can_have_is_not_found(pictures: Path, name: str, shown: str):
    write(pictures, "test", [{"input": name, "set": []}])
    with pytest.raises(UserError, match=f"test.jsonl, line 1: image {shown} not found"):
        folder(pictures)


GOOD = {"input": [1, 2], "set": [[1, 2]]}


@pytest.mark.parametrize(("bad", "message"), [
    ('{"input": [1, 2], "set": [[1,', r"train.jsonl, line 2: not valid JSON: .* at column 30"),
    ([1], r"line 2: expected \{\"input\": …, \"set\": …\}, got \[1\]"),
    ({"input": [1, 2]}, "line 2: field 'set' is missing"),
    ({"set": [[1, 2]]}, "line 2: field 'input' is missing"),
    ({"input": 5, "set": [[1, 2]]}, "line 2: input is 5, expected an image file, a list of numbers or"),
    ({"input": "a.png", "set": [[1, 2]]}, "line 2: input is an image, but earlier inputs are vectors"),
    ({"input": [1, 2, 3], "set": [[1, 2]]}, "line 2: input has 3 numbers, but earlier inputs have 2"),
    ({"input": [1, "x"], "set": [[1, 2]]}, r"line 2: input contains \[1, \"x\"\], expected finite numbers"),
    ('{"input": [1, NaN], "set": [[1, 2]]}', r"line 2: input contains \[1, NaN\], expected finite numbers"),
    ({"input": [1, 2], "set": 3}, "line 2: set is 3, expected a list of elements"),
    ({"input": [1, 2], "set": [3]}, "line 2: element 0 is 3, expected a list of features"),
    ({"input": [1, 2], "set": [[1, 2], [1]]}, "line 2: element 1 has 1 features, but earlier elements have 2"),
    ({"input": [1, 2], "set": [[1, None]]}, "line 2: element 0, feature 1 is null, expected finite numbers up to"),
    ({"input": [1, 2], "set": [[1, "red"]]}, 'line 2: element 0, feature 1 is "red", but it is a number in earlier'),
    ('{"input": [1, 2], "set": [[1, Infinity]]}', "line 2: element 0, feature 1 is Infinity, expected finite"),
    ({"input": [1, 2], "set": [[1, 10**400]]}, r"line 2: element 0, feature 1 is 1000*\.\.\., expected finite numbers"),
    ({"input": [1, -(10**400)], "set": [[1, 2]]}, r"line 2: input contains \[1, -1000*\.\.\., expected finite numbers"),
    ({"input": [1, 2], "set": [[1, 1e39]]}, r"line 2: element 0, feature 1 is 1e\+39, expected finite numbers up"),
    ({"input": [], "set": [[1, 2]]}, "line 2: input has 0 numbers, but earlier inputs have 2"),
])  # fmt: skip
def test_an_error_names_file_line_and_reason(tmp_path: Path, bad, message: str):
    write(tmp_path, "train", [GOOD, bad])
    with pytest.raises(UserError, match=message) as error:
        folder(tmp_path)
    assert "\n" not in str(error.value)
    assert str(tmp_path / "train.jsonl") in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("1" * 5000, "it has a number with too many digits"), ("[" * 100_000, "it is nested too deeply")],
    ids=["digits", "deep"],
)
def test_json_that_python_cannot_read(tmp_path: Path, text: str, message: str):
    write(tmp_path, "train", [GOOD, text])
    with pytest.raises(UserError, match=f"train.jsonl, line 2: not valid JSON: {message}"):
        folder(tmp_path)
    (tmp_path / "task.json").write_text(text)
    with pytest.raises(UserError, match=f"task.json is not valid JSON: {message}"):
        folder(tmp_path)


def test_other_files_must_have_the_same_form(tmp_path: Path):
    write(tmp_path, "train", [{"input": [1, 2], "set": [[1, "a"]]}])
    write(tmp_path, "val", [{"input": [1, 2, 3], "set": [[1, "a"]]}])
    with pytest.raises(UserError, match=r"val.jsonl, line 1: input has 3 numbers, but earlier inputs have 2"):
        folder(tmp_path)
    write(tmp_path, "val", [{"input": [1, 2], "set": [[1, "b"]]}])
    with pytest.raises(UserError, match=r"val.jsonl, line 1: x1 'b' is not in the training data, which has a$"):
        folder(tmp_path)


def test_missing_and_empty_files(tmp_path: Path, pictures: Path):
    with pytest.raises(UserError, match=r"train.jsonl not found"):
        folder(tmp_path / "nothing")
    (pictures / "1.png").unlink()
    with pytest.raises(UserError, match=r"train.jsonl, line 2: image 1.png not found in"):
        folder(pictures)
    root = write(tmp_path / "e", "train", [""])
    with pytest.raises(UserError, match=r"train.jsonl has no samples"):
        folder(root)
    write(root, "train", [{"input": [1], "set": []}])
    with pytest.raises(UserError, match="every set is empty, so the features of an element are unknown"):
        folder(root)
    (root / "train.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"train.jsonl is not a text file"):
        folder(root)


def test_files_from_windows_and_lists(tmp_path: Path):
    write(tmp_path, "train", [GOOD] * 4)
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(folder(tmp_path).train) > 0
    path.write_text(json.dumps([GOOD] * 4, indent=1))
    with pytest.raises(UserError, match=r"train.jsonl begins with a list: write one sample per line"):
        folder(tmp_path)
    with pytest.raises(UserError, match=r"is a file, expected a folder .* name its folder, "):
        open_path(path)


@pytest.mark.parametrize(("settings", "message"), [
    ("{", "task.json is not valid JSON"),
    ("[]", "task.json: expected"),
    ('{"name": 1}', "unknown field 'name'; expected features or kind"),
    ('{"kind": "cubes"}', "kind must be one of points, polygons, boxes, states, vectors, got 'cubes'"),
    ('{"features": ["a"]}', r"expected names for 2 features, got 1 \(a\)"),
    ('{"features": ["a", "a"]}', "features must have different names, got a, a"),
    ('{"features": ["a", "score"]}', "a feature cannot be called 'score', which is the name of the mask"),
    ('{"features": "a"}', "features must be a list of names, got 'a'"),
    ('{"kind": "boxes"}', r"boxes need four numbers \(left, top"),
])  # fmt: skip
def test_bad_settings(tmp_path: Path, settings: str, message: str):
    write(tmp_path, "train", [GOOD])
    (tmp_path / "task.json").write_text(settings)
    with pytest.raises(UserError, match=message):
        folder(tmp_path)


SET_INPUTS = [{"input": [], "set": [[1, 2]]}, {"input": [[1], [3]], "set": [[3, 4]]}, {"input": [], "set": [[5, 6]]}]


def box_overlaps(boxes: torch.Tensor) -> torch.Tensor:
    """Intersection over union of all pairs of boxes (n, 4): (n, n)."""
    low, high = boxes[:, :2], boxes[:, 2:]
    both = (torch.minimum(high[:, None], high) - torch.maximum(low[:, None], low)).clamp(min=0).prod(-1)
    area = (high - low).prod(-1)
    return both / (area[:, None] + area - both)


def test_boxes_without_images_keep_their_overlaps(tmp_path: Path):
    x, y = np.random.default_rng(0).uniform(0, 80, (2, 30))
    boxes = np.stack([x, y, x + 10, y + 30], axis=1).tolist()
    root = write(tmp_path, "train", [{"input": [i], "set": [b]} for i, b in enumerate(boxes)])
    (root / "task.json").write_text('{"kind": "boxes"}')
    task = folder(root)
    target = task.split("train").batch(np.arange(20), 0).target
    found = task.denormalize(target.elements)
    overlaps, expected = box_overlaps(target.elements[:, 0]), box_overlaps(found[:, 0])
    assert torch.allclose(overlaps, expected, atol=1e-4)
    assert (expected[~torch.eye(20, dtype=torch.bool)] > 0.1).any()
    assert torch.allclose(found[..., 2:] - found[..., :2], torch.tensor([10.0, 30.0]), atol=1e-4)


def test_an_empty_input_set_may_be_on_any_line(tmp_path: Path):
    write(tmp_path, "train", SET_INPUTS)
    write(tmp_path, "val", SET_INPUTS[:1])
    task = folder(tmp_path)
    assert (task.input_kind, task.input_size, task.max_input_size, task.input_variable) == ("set", 1, 2, True)
    batch = task.train.batch(np.arange(3), 0).input
    assert isinstance(batch, Sets)
    assert batch.sizes.tolist() == [0, 2, 0]
    write(tmp_path, "train", SET_INPUTS[:1] + SET_INPUTS[2:])
    with pytest.raises(UserError, match=r"train.jsonl: every input is empty"):
        folder(tmp_path)
    write(tmp_path, "train", [SET_INPUTS[0], GOOD])
    with pytest.raises(UserError, match=r"train.jsonl, line 1: input is empty, but later inputs are vectors"):
        folder(tmp_path)


def test_only_input_sets_have_a_size(tmp_path: Path):
    task = folder(write(tmp_path, "train", VECTORS))
    assert (task.max_input_size, task.input_variable) == (0, None)


def test_one_sample_leaves_nothing_for_validation(tmp_path: Path):
    task = folder(write(tmp_path, "train", [GOOD]))
    assert (len(task.train), len(task.val), len(task.test)) == (1, 0, 0)


def test_a_kind_must_fit_the_columns(tmp_path: Path):
    for columns, kind, message in (
        (["red", 1], "points", "points need numbers first, followed by categories"),
        ([1, "red"], "polygons", "polygons need two numbers first: x, y"),
        ([1], "polygons", "polygons need two numbers first: x, y"),
        ([1, 2, 3, 4, 5], "boxes", "boxes need four numbers .*, followed by categories only"),
        (["red", 1, 2], "states", "states need numbers first, followed by categories only"),
        ([1, "red", 2], "states", "states need numbers first, followed by categories only"),
    ):
        write(tmp_path, "train", [{"input": [1], "set": [columns]}])
        (tmp_path / "task.json").write_text(json.dumps({"kind": kind}))
        with pytest.raises(UserError, match=message):
            folder(tmp_path)


def test_the_image_cache_is_the_same_however_the_folder_is_spelled(
    pictures: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    (pictures / "link").symlink_to(pictures)
    monkeypatch.chdir(pictures.parent)
    folder(pictures, size=8)
    built = {p: p.stat().st_mtime_ns for p in cache.rglob("*.npy")}
    assert len(built) == 1
    for spelling in (pictures.name, f"./{pictures.name}/../{pictures.name}", pictures / "link"):
        folder(spelling, size=8)
        assert {p: p.stat().st_mtime_ns for p in cache.rglob("*.npy")} == built
