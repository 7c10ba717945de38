"""Predictions in files: COCO's results load in pycocotools and give our own AP; CSV; boxes on the original images."""

import contextlib
import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from rich.console import Console

from setpredict.cli.main import run as command
from setpredict.config import DataConfig, DecoderConfig, Experiment, InputConfig, LossConfig, TrainConfig
from setpredict.core.errors import UserError
from setpredict.data.task import Fields
from setpredict.report.figures.overlay import draw_answer, overlay
from setpredict.report.result_files import CocoIds, _cell
from setpredict.runs.evaluate import evaluate_run
from setpredict.runs.inputs import find_inputs
from setpredict.runs.loaded import load
from setpredict.runs.predict import Answer
from setpredict.runs.train import train_run


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A COCO folder of images of different sizes with red and blue rectangles."""
    folder = tmp_path_factory.mktemp("coco")
    (folder / "images").mkdir()
    rng = np.random.default_rng(0)
    content = {"images": [], "annotations": [], "categories": [{"id": 3, "name": "red"}, {"id": 9, "name": "blue"}]}
    for i in range(12):
        width, height = 60 + 10 * (i % 3), 80
        picture = Image.new("RGB", (width, height), (90, 90, 90))
        for _ in range(1 + i % 2):
            kind, x, y = int(rng.integers(2)), int(rng.integers(30)), int(rng.integers(40))
            picture.paste((200, 0, 0) if kind == 0 else (0, 0, 200), (x, y, x + 20, y + 25))
            one = {
                "id": 1 + len(content["annotations"]),
                "image_id": 500 + i,
                "category_id": (3, 9)[kind],
                "iscrowd": 0,
            }
            content["annotations"].append(one | {"bbox": [x, y, 20, 25], "area": 500})
        picture.save(folder / "images" / f"{i:02}.png")
        content["images"].append({"id": 500 + i, "file_name": f"{i:02}.png", "width": width, "height": height})
    (folder / "train.json").write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="module")
def run(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dense head that has seen these images for a few steps."""
    place = tmp_path_factory.mktemp("run") / "dense"
    experiment = Experiment(
        DataConfig("coco", str(images / "train.json"), size=64),
        latent=8,
        input=InputConfig("conv", widths=(8, 8, 8)),
        decoder=DecoderConfig("dense"),
        loss=LossConfig(dense=1.0),
        train=TrainConfig(max_steps=25, batch_size=8, lr=0.01, threads=1, pictures=False, val_every=100),
    )
    torch.manual_seed(0)
    train_run(experiment, place, console=Console(quiet=True))
    return place


def test_coco_results_give_the_ap_of_evaluate(images: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    out = tmp_path / "results.json"
    assert command(["predict", str(run), str(images / "images"), "--coco", str(out)]) == 0
    told = capsys.readouterr()
    assert "takes images (PNG, JPEG or WebP), resized to 64×64 pixels, and predicts up to 2 boxes" in told.err
    assert f"Written: {out} (ids of {images / 'train.json'})" in told.err
    assert told.out == ""
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(images / "train.json"))
        found = truth.loadRes(str(out))
        evaluated = COCOeval(truth, found, "bbox")
        evaluated.evaluate()
        evaluated.accumulate()
        evaluated.summarize()
    records = json.loads(out.read_text())
    assert {r["image_id"] for r in records} == set(range(500, 512))
    assert {r["category_id"] for r in records} <= {3, 9}
    assert all(r.keys() == {"image_id", "category_id", "bbox", "score"} for r in records)
    (row,) = evaluate_run(run, data=images / "train.json")
    assert row.coco is not None
    assert (row.coco.ap, row.coco.ap50) == pytest.approx(tuple(evaluated.stats[:2].tolist()), abs=2e-3)
    assert set(row.coco.classes) == {"red", "blue"}


def test_ids_of_another_annotation_file_and_without_any(images: Path, run: Path, tmp_path: Path):
    content = json.loads((images / "train.json").read_text())
    content["images"] = [{**image, "id": image["id"] + 1000} for image in content["images"]]
    content["categories"] = [{"id": 1, "name": "blue"}, {"id": 2, "name": "red"}]
    content["annotations"] = []
    (tmp_path / "other.json").write_text(json.dumps(content))
    out, image = tmp_path / "results.json", str(images / "images" / "03.png")
    options = ["--coco", str(out), "--threshold", "-1"]
    assert command(["predict", str(run), image, *options, "--annotations", str(tmp_path / "other.json")]) == 0
    assert {r["image_id"] for r in json.loads(out.read_text())} == {1503}
    Image.open(image).save(tmp_path / "new.png")
    assert command(["predict", str(run), str(tmp_path / "new.png"), *options]) == 0
    (named,) = {(r["image_id"], r["file_name"]) for r in json.loads(out.read_text())}
    assert named == (512, str(tmp_path / "new.png"))  # the next number after those of the annotations


def test_the_id_of_an_image_is_found_by_any_part_of_its_path():
    assert [CocoIds().image("x.png"), *map(CocoIds({"a": 500}).image, ("y.png", "z.png", "y.png"))] == [
        1,
        501,
        502,
        501,
    ]
    ids = CocoIds({"train/aachen/1.png": 7, "2.png": 8})
    assert ids.image("/data/images/train/aachen/1.png") == 7
    assert CocoIds(ids.images).image("train/aachen/1.png") == 7
    assert ids.image("somewhere/2.png") == 8
    assert ids.image("/data/aachen/1.png") == 9


def test_two_images_never_share_an_id():
    assert list(map(CocoIds().image, ("1.png", "sub/1.png", "1.png"))) == [1, 2, 1]
    ids = CocoIds({"train_0.png": 1, "val_0.png": 1}, source="train.json, val.json")  # each file counts from 1
    assert [ids.image("images/train_0.png"), ids.image("images/../images/train_0.png")] == [1, 1]
    for other in ("images/val_0.png", "more/train_0.png"):
        with pytest.raises(UserError, match=f"images/train_0.png and {other} both have the id 1 in .* --annotations"):
            ids.image(other)


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [(1700000013.6295757, 2, "1700000013.6295757"), (0.30000001192, 2, "0.30000001"), (5.0, 0, "5"), ("a", 0, "a")],
)
def test_numbers_in_csv_keep_what_tells_them_apart(value, decimals: int, text: str):
    assert _cell(value, decimals)[:15] == text[:15]


def test_csv_and_json_name_features_and_categories(images: Path, run: Path, tmp_path: Path, capsys):
    image = str(images / "images" / "00.png")
    options = ["--threshold", "-1", "--csv", str(tmp_path / "a.csv"), "--json"]
    assert command(["predict", str(run), image, *options]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    elements = json.loads(line)["set"]
    assert [list(e) for e in elements] == [["score", "left", "top", "right", "bottom", "category"]] * 2
    rows = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text())))
    assert [r["category"] for r in rows] == [e["category"] for e in elements]
    assert [float(r["left"]) for r in rows] == pytest.approx([e["left"] for e in elements], rel=1e-4)
    assert {r["input"] for r in rows} == {image}


def test_drawings_have_the_size_of_the_originals(images: Path, run: Path, tmp_path: Path):
    names = [str(images / "images" / f"{i:02}.png") for i in range(3)]
    assert command(["predict", str(run), *names, "--draw", str(tmp_path / "drawn"), "--threshold", "-1"]) == 0
    for name in names:
        with Image.open(name) as before, Image.open(tmp_path / "drawn" / Path(name).name) as after:
            assert before.size == after.size
            assert np.asarray(before.convert("RGB")).tolist() != np.asarray(after).tolist()


def test_a_box_is_drawn_where_it_is(run: Path):
    task = load(run).task
    fields = [Fields({}, {"category": "blue"})]
    places = torch.tensor([[10.0, 40.0, 90.0, 80.0]])
    answer = Answer("x.png", torch.zeros(1, 6), torch.tensor([0.9]), fields, [""], places)
    pixels = np.asarray(overlay(Image.new("RGB", (100, 100), "white"), answer, task)).astype(int)
    colored = (pixels != 255).any(axis=2)
    rows, columns = np.nonzero(colored)
    assert (columns.min(), columns.max(), rows.max()) == (10, 90, 80)
    assert rows.min() < 40  # the label is above the box
    assert not colored[50:75, 20:80].any()  # the inside stays as it is
    assert colored[40:81, 10].all()


def test_drawings_never_overwrite_the_originals(images: Path, run: Path, tmp_path: Path, capsys):
    image = images / "images" / "00.png"
    before = image.read_bytes()
    assert command(["predict", str(run), str(image), "--draw", str(image.parent)]) == 2
    assert f"would overwrite {image}: choose another folder" in capsys.readouterr().err
    assert image.read_bytes() == before
    answer, taken = Answer(str(image), torch.zeros(0, 6), torch.zeros(0), [], [], torch.zeros(0, 4)), set()
    files = [draw_answer(answer, load(run).task, tmp_path, taken).name for _ in range(2)]
    assert files == ["00.png", "00-1.png"]


def test_an_unreadable_image_does_not_lose_the_others(images: Path, run: Path, tmp_path: Path, capsys):
    for i in range(2):
        (tmp_path / f"broken{i}.png").write_bytes(b"no image")
    Image.open(images / "images" / "00.png").save(tmp_path / "fine.png")
    assert command(["predict", str(run), str(tmp_path), "--csv", str(tmp_path / "a.csv"), "--threshold", "-1"]) == 2
    told = capsys.readouterr().err
    assert "broken0.png is not a PNG, JPEG or WebP image" in told
    assert "2 of 3 inputs could not be read; the others are complete" in told
    assert "fine.png" in (tmp_path / "a.csv").read_text()
    assert "Traceback" not in told


def test_options_that_do_not_fit_are_named(run: Path, capsys: pytest.CaptureFixture):
    for words, message in (
        (["points-mlp", "[[0.5, 0.5]]", "--coco", "x.json"], "--coco is for boxes in images, but this model predicts"),
        (["points-mlp", "[[0.5, 0.5]]", "--draw", "x"], "--draw is for boxes and points in images"),
        (["points-mlp", "[[0.5, 0.5]]", "--steps", "3"], "points-mlp is a one-shot decoder and has no steps"),
        (["points-mlp", "[[0.5, 0.5]]", "--annotations", "x.json"], "--annotations is for --coco FILE"),
        ([str(run), "nothing/*.png"], "no file matches nothing/*.png"),
    ):
        assert command(["predict", *words]) == 2
        assert message in capsys.readouterr().err


def test_folders_patterns_and_text(run: Path, tmp_path: Path):
    boxes, points = load(run).task, load("points-mlp").task
    (tmp_path / "deep").mkdir()
    for name in ("b.PNG", "a.jpg", "note.txt", "deep/c.webp", "n.npy"):
        (tmp_path / name).touch()

    def found(given: list[str], task) -> list[str]:
        return [str(Path(f).relative_to(tmp_path)) for f in find_inputs(given, task)]

    assert found([str(tmp_path)], boxes) == ["a.jpg", "b.PNG", "deep/c.webp"]
    assert found([str(tmp_path), str(tmp_path / "*.jpg")], boxes) == ["a.jpg", "b.PNG", "deep/c.webp"]
    assert found([str(tmp_path / "**" / "*.webp")], boxes) == ["deep/c.webp"]
    assert found([str(tmp_path)], points) == ["n.npy"]
    assert find_inputs(["[[0.1, 0.2]]"], points) == ["[[0.1, 0.2]]"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty has no files that end in .png, .jpg, .jpeg, .webp"):
        find_inputs([str(tmp_path / "empty")], boxes)
