"""What `setpredict data check` notices about a data set, and that all mistakes are reported together."""

import io
import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from rich.console import Console

from setpredict.config import DataConfig, DecoderConfig, Experiment, InputConfig, TrainConfig
from setpredict.core.errors import UserError
from setpredict.data import load, open_path
from setpredict.data.inside_out import inside_out_boxes
from setpredict.model import SetPredictor
from setpredict.report.data_check import check
from setpredict.report.data_findings import findings
from setpredict.report.settings import print_settings
from setpredict.resolve import model_config
from setpredict.runs.train import train_run


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SETPREDICT_CACHE", str(tmp_path / "cache"))


def write(folder: Path, records: list, name: str = "train") -> Path:
    (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)))
    return folder


def test_constant_and_one_hot_columns_and_a_missing_test_split(tmp_path: Path):
    records = [{"input": [i, 2 * i], "set": [[i, 7, i % 2, 1 - i % 2], [3, 7, 1, 0]]} for i in range(8)]
    found = " ".join(findings(open_path(write(tmp_path, records))))
    assert "There is no test split: the val split is used" in found
    assert "The same in every element: x1." in found
    assert "x2, x3 are a one-hot category, and are treated as one." in found
    assert "its own target" not in found


def test_large_numbers_and_numbers_as_text(tmp_path: Path):
    start = 1_700_000_000
    records = [{"input": [i], "set": [[5e6, start + i, f"{i / 7:.2f}"], [5e6, start, "0"]]} for i in range(60)]
    (tmp_path / "task.json").write_text('{"features": ["height", "time", "cost"]}')
    text = io.StringIO()
    summary = check(write(tmp_path, records), out=tmp_path / "a.png", console=Console(file=text, width=120))
    found, low, high = " ".join(summary.advice), *summary.ranges["time"]
    assert "The same in every element: height." in found
    assert "cost has" in found
    assert "write them without quotes" in found
    assert (low, high) == pytest.approx((start, start + 59), abs=7)  # some samples are held out
    assert f"{low:.0f}" in text.getvalue()
    assert "others" in text.getvalue()  # of more categories than are listed


def test_points_with_categories_may_be_named_as_such(tmp_path: Path):
    Image.new("RGB", (40, 20)).save(tmp_path / "a.png")
    write(tmp_path, [{"input": "a.png", "set": [[i, 3, "cat"], [5, 7, "dog"]]} for i in range(20)])
    assert '"kind": "points" in task.json' in " ".join(findings(open_path(tmp_path, size=16)))


def test_auto_encoders_and_complete_data(tmp_path: Path):
    records = [{"input": [[i, 2], [3, i + 1]], "set": [[i, 2], [3, i + 1]]} for i in range(8)]
    for name in ("train", "val", "test"):
        write(tmp_path, records, name)
    assert findings(open_path(tmp_path)) == ["Every input is its own target: the model will be an auto-encoder."]
    assert findings(load("polygons", train=64)) == []


def test_one_box_with_swapped_sides(tmp_path: Path):
    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    records = [{"input": "a.png", "set": [[1, 2, 30 + i, 40]]} for i in range(9)]
    records.append({"input": "a.png", "set": [[30, 2, 10, 40]]})
    for name in ("train", "val", "test"):
        write(tmp_path, records, name)
    constant, said = findings(open_path(tmp_path))
    assert constant == "The same in every element: x1, x3."
    assert said.startswith("1 of 10 elements have right < left or bottom < top, so that all are plain vectors")


def test_a_swapped_box_is_found_in_the_samples_that_are_held_out(tmp_path: Path):
    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    for wrong in range(10):  # one of the ten samples is held out
        records = [{"input": "a.png", "set": [[30 if i == wrong else 1, 2, 29, 40 + i]]} for i in range(10)]
        assert inside_out_boxes(open_path(write(tmp_path, records))).startswith("1 of 10 elements"), wrong


@pytest.mark.parametrize("element", [[50, 40, 30, 20], [1, 2, 30, 40, 3.0]])  # a center and sides; a class as a number
def test_vectors_that_may_be_meant_as_boxes(tmp_path: Path, element: list):
    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    write(tmp_path, [{"input": "a.png", "set": [[v + i for v in element]]} for i in range(9)])
    said = findings(open_path(tmp_path))
    assert said[-1].startswith("The elements are plain vectors. If they are boxes: these are left, top, right, bottom")


def test_boxes_without_area_or_beyond_their_image(tmp_path: Path):
    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    boxes = [[[1, 2, 30, 40]], [[5, 5, 5, 9]], [[-9, 1, 20, 20], [1, 1, 99, 9]], [[0, 0, 64, 64]]]
    for name in ("train", "val", "test"):
        write(tmp_path, [{"input": "a.png", "set": found} for found in boxes], name)
    assert findings(open_path(tmp_path)) == ["1 of 5 boxes have no area.", "2 of 5 boxes reach beyond their image."]


def test_training_begins_with_a_warning_about_swapped_sides(tmp_path: Path):
    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    write(tmp_path, [{"input": "a.png", "set": [[30 if i == 4 else 1, 2, 29, 40 + i]]} for i in range(10)])
    experiment = Experiment(
        DataConfig("folder", str(tmp_path), size=64),
        latent=4,
        input=InputConfig("conv", widths=(4, 4)),
        decoder=DecoderConfig("mlp", hidden=(4,)),
        train=TrainConfig(max_steps=0, batch_size=2, threads=1, pictures=False),
    )
    text = io.StringIO()
    train_run(experiment, tmp_path / "run", console=Console(file=text, width=200))
    assert text.getvalue().startswith("1 of 10 elements have right < left or bottom < top")


def test_up_to_twenty_mistakes_are_reported_together(tmp_path: Path):
    records: list = [{"input": [1.0], "set": [[1.0]]}]
    write(tmp_path, [*records, {"input": [1.0]}, {"set": []}, {"input": [1, 2], "set": []}, {"input": [1], "set": 5}])
    with pytest.raises(UserError) as caught:
        open_path(tmp_path)
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[0].rpartition(", ")[2] for line in lines] == ["line 2", "line 3", "line 4", "line 5"]
    write(tmp_path, [*records, *[{"input": [1.0]}] * 50])
    with pytest.raises(UserError) as caught:
        open_path(tmp_path)
    assert len(str(caught.value).splitlines()) == 21
    assert str(caught.value).endswith("… and possibly more")


def test_mistakes_in_coco_annotations_are_reported_together(tmp_path: Path):
    Image.new("RGB", (20, 20)).save(tmp_path / "a.png")
    content = {
        "images": [{"id": 1, "file_name": "a.png", "width": 20, "height": 20}],
        "categories": [{"id": 1, "name": "x"}],
    }
    boxes = [[1, 2, -3, 4], [1, 2, 3], [1, 2, 3, 4]]
    content["annotations"] = [{"image_id": 1, "category_id": 1, "bbox": box} for box in boxes]
    (tmp_path / "labels.json").write_text(json.dumps(content))
    with pytest.raises(UserError) as caught:
        open_path(tmp_path / "labels.json")
    assert len(str(caught.value).splitlines()) == 2
    with pytest.raises(UserError, match=r"contains no data set.* It has the annotations .*labels.json: name the file"):
        open_path(tmp_path)


def test_a_picture_is_not_replaced_silently(tmp_path: Path):
    write(tmp_path, [{"input": [i], "set": [[i, i + 1]]} for i in range(8)])
    texts = []
    for _ in range(2):
        text = io.StringIO()
        check(tmp_path, out=tmp_path / "sheet.png", console=Console(file=text, width=80))
        texts.append(text.getvalue())
        assert max(map(len, text.getvalue().splitlines()[1:-1])) <= 110  # sentences are wrapped by the terminal
    assert "replaced the one that was there" not in texts[0]
    assert "replaced the one that was there" in texts[1]


def test_the_settings_before_a_training_are_short_and_resolved(tmp_path: Path):
    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    write(tmp_path, [{"input": "a.png", "set": [[1, 2, 30 + i, 40, "cat" if i % 2 else "dog"]]} for i in range(9)])
    experiment = Experiment(DataConfig("folder", str(tmp_path), size=64))
    task = open_path(tmp_path, size=64)
    torch.manual_seed(0)
    model = SetPredictor.from_config(model_config(experiment, task))
    text = io.StringIO()
    print_settings(tmp_path / "run", Console(file=text, width=80), experiment, task, model)
    shown = text.getvalue()
    assert len(shown.splitlines()) <= 14
    assert max(map(len, shown.splitlines())) <= 80
    flowing = " ".join(shown.split())
    for words in ("8 train, 1 val, 1 test; test is val", "64×64 images → always 1 boxes with 6 features",
                  "conv encoder", "config.json", "by mean AP"):  # fmt: skip
        assert words in flowing, words
