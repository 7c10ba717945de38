"""Predictions for files: inputs of every kind, units, text, and mistakes that are named."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from setpredict.build import make_task
from setpredict.config import DataConfig, DecoderConfig, Experiment, InputConfig, ModelConfig
from setpredict.core.errors import UserError
from setpredict.data.description import NoData
from setpredict.data.task import Fields, SetTask
from setpredict.model import SetPredictor
from setpredict.runs.loaded import LoadedRun, load
from setpredict.runs.predict import Answer, predict_files, read_input
from setpredict.sets import Prediction
from tests.training.comparing import assert_close

POINTS = "[[0.2, 0.3], [0.8, 0.2], [0.5, 0.8]]"


@pytest.fixture(scope="module")
def points() -> LoadedRun:
    return load("points-idspn")


@pytest.fixture
def boxes() -> SetTask:
    """Boxes with a category on images."""
    return SetTask(
        name="pets",
        input_kind="image",
        input_size=64,
        max_size=2,
        features=6,
        variable=True,
        kind="boxes",
        train=NoData(),
        val=NoData(),
        test=NoData(),
        feature_names=("x0", "y0", "x1", "y1", "pet cat", "pet red dog"),
        groups={"pet": (4, 6)},
        categories={"pet": ("cat", "red dog")},
    )


KINDS: dict[str, Any] = {"image": "resnet", "vector": "vector", "set": "set"}


class Fixed(torch.nn.Module):
    """A decoder with one answer."""

    steps, needs, set_encoder = 0, ("vector",), None

    def __init__(self, elements: torch.Tensor, mask: torch.Tensor):
        super().__init__()
        self.elements, self.mask = elements, mask

    def forward(self, code, *, steps=None, keys=None) -> Prediction:
        B = len(code.vector)
        return Prediction(self.elements.repeat(1, B, 1, 1), self.mask.repeat(1, B, 1))


def fixed_run(task: SetTask, elements: list, mask: list) -> LoadedRun:
    kind = KINDS[task.input_kind]
    config = ModelConfig(task.max_size, task.features, input=InputConfig(kind, task.input_size, depth=10))
    config.input.width, config.decoder, config.latent = 2, DecoderConfig("mlp"), 4
    model = SetPredictor.from_config(config)
    model.decoder = Fixed(torch.tensor([[elements]]), torch.tensor([[mask]]))
    return LoadedRun("fixed", model.eval(), task, Experiment())


def test_answers_come_in_order_whatever_the_batch(tmp_path):
    points = load("points-mlp")
    (tmp_path / "a.json").write_text(POINTS)
    np.save(tmp_path / "b.npy", np.array([[0.5, 0.5]]))
    inputs = [str(tmp_path / "a.json"), str(tmp_path / "b.npy"), POINTS]
    together = list(predict_files(points, inputs))
    alone = list(predict_files(points, inputs, batch_size=1))
    assert [a.input for a in together] == inputs
    assert [len(a.elements) for a in together] == [3, 1, 3]
    for a, b in zip(together, alone):
        values = [{"elements": x.elements, "scores": x.scores} for x in (a, b)]
        assert_close(*values, rtol=0, atol=1e-5)


def test_an_answer_has_elements_scores_fields_and_text(points):
    (answer,) = predict_files(points, [POINTS])
    assert answer.scores.tolist() == sorted(answer.scores.tolist(), reverse=True)
    for element, fields, text in zip(answer.elements.tolist(), answer.fields, answer.text):
        assert fields == Fields({"x": element[0], "y": element[1]}, {})
        assert text == f"({element[0]:.2f}, {element[1]:.2f})"
    pairs = zip(answer.elements.tolist(), answer.scores.tolist())
    expected = {"input": POINTS, "set": [{"score": score, "x": x, "y": y} for (x, y), score in pairs]}
    assert answer.to_dict() == expected
    assert json.loads(json.dumps(answer.to_dict())) == expected


def test_steps_and_threshold(points):
    (none,) = predict_files(points, [POINTS], threshold=1.0)
    assert (len(none.elements), none.fields, none.text) == (0, [], [])
    (everything,) = predict_files(points, [POINTS], threshold=-1)
    assert len(everything.elements) == points.task.max_size
    (few,) = predict_files(points, [POINTS], steps=1, threshold=-1)
    assert not torch.allclose(few.elements, everything.elements)
    with pytest.raises(UserError, match="--steps must be 0 or more, got -1"):
        next(predict_files(points, [POINTS], steps=-1))


def test_boxes_are_in_pixels_of_the_original_image(boxes, tmp_path):
    Image.new("RGB", (200, 100)).save(tmp_path / "wide.png")
    elements = [[0.1, 0.2, 0.5, 0.6, 0.1, 0.9], [0.0, 0.0, 1.0, 1.0, 0.7, 0.3]]
    run = fixed_run(boxes, elements, [0.75, 1.5])
    (answer,) = predict_files(run, [str(tmp_path / "wide.png")])
    assert answer.scores.tolist() == [1.0, 0.75]
    expected = {"elements": torch.tensor([[0, 0, 200, 100, 0.7, 0.3], [20, 20, 100, 60, 0.1, 0.9]])}
    assert_close({"elements": answer.elements.float()}, expected, rtol=1e-6, atol=1e-5)
    assert answer.text == ["x 0 to 200, y 0 to 100 pixels cat", "x 20 to 100, y 20 to 60 pixels red dog"]
    assert [f.categories for f in answer.fields] == [{"pet": "cat"}, {"pet": "red dog"}]
    assert answer.fields[1].numbers == pytest.approx({"x0": 20, "y0": 20, "x1": 100, "y1": 60})
    assert answer.to_dict()["set"][0] == {"score": 1.0, "x0": 0, "y0": 0, "x1": 200, "y1": 100, "pet": "cat"}
    assert [len(answer.above(t)) for t in (0.5, 0.8, 1.0)] == [2, 1, 0]


def test_numbers_are_in_the_units_of_the_data(tmp_path):
    rows = [{"input": [i * 10, 5], "set": [[100 + i, "a" if i else "b"]]} for i in range(3)]
    for split in ("train", "val"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run = fixed_run(make_task(DataConfig("folder", str(tmp_path))), [[0.5, 0.2, 0.8]], [1.0])
    (answer,) = predict_files(run, ["[10, 5]"])
    assert answer.elements[0, 0].item() == pytest.approx(101)
    assert list(answer.fields[0].numbers.values()) == [pytest.approx(101)]
    assert answer.text == ["(101.00) b"]


def test_large_numbers_keep_their_digits(tmp_path):
    """Times of seconds, which float32 rounds to 128: they are only rounded once they are in the range of the data."""
    start = 1_700_000_000
    rows = [{"input": [start + i, 5], "set": [[start + 2 * i]]} for i in range(101)]
    for split in ("train", "val"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = make_task(DataConfig("folder", str(tmp_path)))
    run, seen = fixed_run(task, [[0.25]], [1.0]), []
    run.model.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    run.model.encode = lambda input, encode=run.model.encode: (seen.append(input), encode(input))[1]
    (answer,) = predict_files(run, [f"[{start + 30}, 5]"])
    assert seen[-1][0, 0].item() == pytest.approx(0.3, abs=1e-6)
    assert answer.elements[0, 0].item() == pytest.approx(start + 50, abs=1e-3)
    assert list(answer.fields[0].numbers.values()) == [pytest.approx(start + 50, abs=1e-3)]


def test_points_in_pixels_are_those_of_this_image_in_text_too(tmp_path):
    Image.new("RGB", (80, 40)).save(tmp_path / "small.png")
    Image.new("RGB", (160, 80)).save(tmp_path / "large.png")
    rows = [{"input": "small.png", "set": [[70, 30]]}] * 4
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = make_task(DataConfig("folder", str(tmp_path), size=64))
    assert task.kind == "points"
    (answer,) = predict_files(fixed_run(task, [[0.5, 0.25]], [1.0]), [str(tmp_path / "large.png")])
    assert answer.text == ["(80.00, 20.00)"]
    assert answer.elements[0].tolist() == [80, 20]


def test_a_file_that_the_system_does_not_open_is_left_out_alone(points, tmp_path, monkeypatch):
    (tmp_path / "a.json").write_text(POINTS)
    (tmp_path / "b.json").mkdir()
    problems = []
    names = [str(tmp_path / "b.json"), str(tmp_path / "a.json")]
    assert [answer.input for answer in predict_files(points, names, on_error=problems.append)] == names[1:]
    assert "Is a directory" in str(problems[0])
    with pytest.raises(UserError, match="Is a directory"):
        list(predict_files(points, names))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("missing.npy", "file missing.npy not found"),
        ("missing.json", "file missing.json not found"),
        ("[[1, 2], [3]]", "neither a .npy or .json file nor JSON numbers in equal rows"),
        ("hello", "neither a .npy or .json file nor JSON numbers in equal rows"),
        ("[[1, 2, 3]]", r"must be a list of elements with 2 numbers, got shape \(1, 3\)"),
        ("[1, 2]", r"must be a list of elements with 2 numbers, got shape \(2,\)"),
        ("[[1, NaN]]", "has a number that is not finite"),
        (json.dumps([[0.5, 0.5]] * 11), r"\[\[0.5, 0.5\], .* must have up to 10 elements, got 11"),
    ],
)
def test_wrong_sets_are_named(points, given, message):
    with pytest.raises(UserError, match=message):
        next(predict_files(points, [given]))


def test_arrays_that_hold_no_numbers_are_named(points, tmp_path):
    complex_numbers, huge = tmp_path / "complex.npy", tmp_path / "huge.npy"
    np.save(complex_numbers, np.ones((2, 2), np.complex128))
    with huge.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**4)})
    for path, problem in ((complex_numbers, "it holds complex128"), (huge, "Unable to allocate")):
        with pytest.raises(UserError, match=f"is neither a .npy or .json file .*{problem}"):
            next(predict_files(points, [str(path)]))


def test_a_set_that_is_too_large_is_left_out_alone(points):
    large, problems = json.dumps([[0.5, 0.5]] * 11), []
    answers = list(predict_files(points, ["[[0.1, 0.2]]", large, "[[0.3, 0.4]]"], on_error=problems.append))
    assert [answer.input for answer in answers] == ["[[0.1, 0.2]]", "[[0.3, 0.4]]"]
    assert len(problems) == 1
    with pytest.raises(UserError, match="must have exactly 10 elements, got 1"):
        read_input("[[0.1, 0.2]]", replace(points.task, variable=False, input_variable=None))


def test_empty_sets_and_other_kinds_of_inputs(points, boxes, tmp_path):
    assert read_input("[]", points.task).shape == (0, 2)
    vector = replace(points.task, input_kind="vector", input_size=3)
    assert read_input("[1, 2, 3]", vector).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(UserError, match=r"must be 3 numbers, got shape \(2,\)"):
        read_input("[1, 2]", vector)
    with pytest.raises(UserError, match=r"image .*none.png not found"):
        read_input(str(tmp_path / "none.png"), boxes)
    Image.new("RGB", (80, 48)).save(tmp_path / "some.png")
    assert read_input(str(tmp_path / "some.png"), boxes).shape == (3, 64, 64)


def test_an_answer_without_elements_is_valid_json():
    answer = Answer("x", torch.zeros(0, 2), torch.zeros(0), [], [])
    assert json.dumps(answer.to_dict()) == '{"input": "x", "set": []}'
