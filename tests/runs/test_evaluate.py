"""Evaluation on other data, of any model, beside trivial predictions."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

import setpredict
from setpredict import DecoderConfig, InputConfig, ModelConfig, SetPredictor, UserError
from setpredict.cli.main import run as command
from setpredict.config import DataConfig, EncoderConfig, Experiment, LossConfig, TrainConfig
from setpredict.data import load as load_data
from setpredict.data import open_path
from setpredict.data.like import adapted, open_like
from setpredict.data.sources.coco import coco
from setpredict.metrics.matched import ElementErrors
from setpredict.presets import preset
from setpredict.runs.evaluate import evaluate, evaluate_run
from setpredict.runs.folder import RunFolder
from setpredict.runs.train import train_run
from setpredict.training.evaluation import Evaluation


def write_animals(folder: Path, names: dict[str, int], seed: int = 0, order: tuple[str, ...] = ("cat", "dog")) -> Path:
    """Vectors of two numbers, and sets of a number in other units, and a category."""
    rng = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    for name, most in names.items():
        rows = []
        for i in range(12):
            count = most if i == 0 else int(rng.integers(1, most + 1))
            elements = [[float(rng.uniform(100, 300)), order[int(rng.integers(2))]] for _ in range(count)]
            rows.append({"input": rng.uniform(-5, 5, 2).tolist(), "set": elements})
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


@pytest.fixture(scope="module")
def animals(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder of data, and a run that was trained on it."""
    place = tmp_path_factory.mktemp("animals")
    data = write_animals(place / "data", {"train": 3, "val": 3, "test": 3})
    experiment = Experiment(
        DataConfig("folder", str(data)),
        latent=8,
        encoder=EncoderConfig(hidden=(8,)),
        decoder=DecoderConfig("mlp", hidden=(8,), mask_bias=2.0),
        train=TrainConfig(max_steps=2, batch_size=4, threads=1, pictures=False),
    )
    train_run(experiment, place / "run", console=Console(quiet=True))
    return data, place / "run"


def test_the_same_data_at_another_place_has_the_same_scores(animals, tmp_path):
    data, run = animals
    other = tmp_path / "copy"
    other.mkdir()
    (other / "test.jsonl").write_text((data / "test.jsonl").read_text())  # its own ranges differ
    (own,), (copied,) = evaluate_run(run), evaluate_run(run, data=other)
    assert copied.metrics == pytest.approx(own.metrics, rel=1e-4)
    assert copied.elements
    assert own.elements
    assert copied.elements.errors == pytest.approx(own.elements.errors, rel=1e-4)
    assert copied.elements.confusions == own.elements.confusions
    assert copied.baselines.keys() == own.baselines.keys()
    for name, scores in own.baselines.items():
        assert copied.baselines[name].metrics == pytest.approx(scores.metrics, rel=1e-4), name


def test_rows_on_own_data_are_stored_and_read_again(animals):
    _, run = animals
    (row,) = evaluate_run(run)
    (stored,) = json.loads((run / "evaluation-test.json").read_text())
    assert Evaluation.from_dict(stored) == Evaluation.from_dict(json.loads(json.dumps(asdict(row))))
    assert asdict(Evaluation.from_dict(stored))["baselines"].keys() == row.baselines.keys()
    old = {k: stored[k] for k in ("split", "steps", "samples", "metrics", "milliseconds", "score")}
    assert Evaluation.from_dict(old).baselines == {}
    old["elements"] = {"matched": 3, "confusion": {"kind": [[2, 0], [1, 0]]}}
    assert Evaluation.from_dict(old).elements == ElementErrors(3, confusions={"kind": [[0, 0, 2], [1, 0, 1]]})


def test_rows_with_other_steps_do_not_replace_the_scores_of_the_run(tmp_path, capsys):
    experiment = preset("multisets", "dspn")
    experiment.data = replace(experiment.data, train=16, val=4, test=4)
    experiment.train = replace(experiment.train, max_steps=1, pictures=False)
    train_run(experiment, tmp_path / "run", console=Console(quiet=True))
    folder, steps = RunFolder(tmp_path / "run"), experiment.decoder.solver.steps
    evaluate_run(folder.path)
    before = folder.read_evaluation("test")
    assert command(["evaluate", str(folder.path), "--steps", "0", str(steps)]) == 0
    stored = folder.read_evaluation("test") or []
    assert before == stored[:1]
    assert [row["steps"] for row in stored] == [steps, 0]
    assert "After 0 steps: " in capsys.readouterr().out
    evaluate_run(folder.path, (steps, 0))
    assert [row["steps"] for row in folder.read_evaluation("test") or []] == [steps, 0]


def test_categories_are_matched_by_name_and_numbers_by_unit(animals, tmp_path):
    data, _ = animals
    like = open_path(data)
    other = write_animals(tmp_path / "other", {"train": 3}, seed=5, order=("dog", "cat"))
    task = open_like(other, like)
    lines = [json.loads(line) for line in (other / "train.jsonl").read_text().splitlines()]
    assert len(task.test) == len(lines)  # all samples, since it has no test split
    batch = task.test.batch(np.arange(len(lines)), 0)
    for i, line in enumerate(lines):
        found = [(f.numbers["x0"], f.categories["x1"]) for f in map(like.fields, batch.target[i].to_list()[0])]
        assert [c for _, c in found] == [c for _, c in line["set"]]
        assert [n for n, _ in found] == pytest.approx([n for n, _ in line["set"]], rel=1e-4)
        given = like.denormalize_input(batch.input)[i].tolist()  # pyright: ignore
        assert given == pytest.approx(line["input"], abs=1e-4)


def test_larger_targets_count_as_misses_with_one_line(animals, tmp_path, capsys):
    _, run = animals
    larger = write_animals(tmp_path / "larger", {"test": 6})
    assert command(["evaluate", str(run), "--data.folder", str(larger)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    (row,) = evaluate_run(run, data=larger)
    assert row.too_large > 0
    assert f"{row.too_large} of 12 sets have more than 3 elements, the most that this model predicts" in said
    assert row.elements
    assert row.elements.missed >= row.too_large


def test_data_that_does_not_fit_is_named(animals, tmp_path):
    data, run = animals
    like = open_path(data)
    with pytest.raises(UserError, match="multisets has sets of 2 as inputs, but the model takes vectors of 2"):
        adapted(load_data("multisets", train=8), like)
    other = write_animals(tmp_path / "birds", {"test": 2}, order=("cat", "bird"))
    with pytest.raises(UserError, match="birds has the x1 'bird', but the model knows cat, dog"):
        evaluate_run(run, data=other)
    (tmp_path / "train.jsonl").write_text('{"input": [1, 2], "set": [[1, 2, "cat"]]}\n')
    with pytest.raises(UserError, match="have the numbers x0, x1, but the model predicts x0"):
        evaluate_run(run, data=tmp_path)
    with pytest.raises(UserError, match="nowhere does not exist"):
        evaluate_run(run, data=tmp_path / "nowhere")


def test_samples_that_the_model_was_trained_on_are_named(animals, tmp_path, capsys):
    _, run = animals
    data = write_animals(tmp_path / "data", {"train": 3})
    experiment = RunFolder(run).read_experiment()
    experiment.data.folder = str(data)
    train_run(experiment, tmp_path / "run", console=Console(quiet=True))
    said = "has no test split: these are all its samples, and the model was trained on most of them"
    for other, same in ((data, True), (write_animals(tmp_path / "other", {"train": 3}), False)):
        assert command(["evaluate", str(tmp_path / "run"), "--data.folder", str(other)]) == 0
        assert (said in " ".join(capsys.readouterr().out.split())) == same


def test_steps_of_a_one_shot_decoder(animals, capsys):
    _, run = animals
    assert command(["evaluate", str(run), "--steps", "5"]) == 2
    assert "is a one-shot decoder and has no steps: leave out --steps 5" in capsys.readouterr().err


def test_any_model_on_any_task():
    torch.manual_seed(0)
    task = load_data("multisets", n=4, train=32, test=10)
    config = ModelConfig(4, 2, latent=8, input=InputConfig("set", 2), decoder=DecoderConfig("mlp", hidden=(8,)))
    seen = evaluate(SetPredictor.from_config(config), task, loss=LossConfig("chamfer"))
    assert (seen.samples, seen.steps) == (10, None)
    assert seen.selected_by == "the chamfer distance"
    assert seen.baselines.keys() == {"best constant set", "mean prediction", "random training set"}
    with pytest.raises(TypeError, match="evaluate needs a task"):
        evaluate(SetPredictor.from_config(config))
    with pytest.raises(UserError, match="have 3 features, but the model predicts 2"):
        evaluate(SetPredictor.from_config(config), load_data("multisets", n=4, dim=3, train=32, test=10))
    with pytest.raises(UserError, match="the test split of multisets is empty"):
        evaluate(SetPredictor.from_config(config), task.limited(test=0))


def test_a_model_in_float64_is_measured_too():
    torch.manual_seed(0)
    task = load_data("multisets", n=4, train=32, test=10)
    model = SetPredictor.from_config(ModelConfig(4, 2, latent=8, input=InputConfig("set", 2)))
    single = evaluate(model, task, trivial=False)
    double = evaluate(model.double(), task, trivial=False)
    assert double.metrics == pytest.approx(single.metrics, rel=1e-2)


def test_every_training_sample_is_measured_once():
    task = load_data("multisets", n=4, train=13, test=10)
    config = ModelConfig(4, 2, latent=8, input=InputConfig("set", 2), decoder=DecoderConfig("mlp", hidden=(8,)))
    seen = evaluate(SetPredictor.from_config(config), task, split="train", batch_size=5)
    assert seen.samples == 13
    assert seen.elements
    assert seen.elements.matched + seen.elements.missed == 13 * 4


def test_a_shipped_model_by_name():
    seen = setpredict.evaluate("points-mlp", load_data("multisets", n=10, variable=True, train=64, test=16))
    assert seen.samples == 16
    assert seen.score < min(other.score for other in seen.baselines.values())


def write_coco(folder: Path, names: list[str], images: int = 4) -> Path:
    folder.mkdir()
    content = {"images": [], "annotations": [], "categories": [{"id": 7 + i, "name": n} for i, n in enumerate(names)]}
    for i in range(images):
        Image.new("RGB", (80, 40), (9 * i, 0, 0)).save(folder / f"{i}.png")
        content["images"].append({"id": 100 + i, "file_name": f"{i}.png", "width": 80, "height": 40})
        content["annotations"].append({"image_id": 100 + i, "category_id": 7 + i % len(names), "bbox": [8, 4, 40, 20]})
    (folder / "labels.json").write_text(json.dumps(content))
    return folder


def test_coco_files_with_fewer_or_reordered_categories(tmp_path, monkeypatch):
    monkeypatch.setenv("SETPREDICT_CACHE", str(tmp_path / "cache"))
    like = coco(write_coco(tmp_path / "a", ["cat", "dog"]) / "labels.json", size=64)
    for folder, names in ((tmp_path / "b", ["dog", "cat"]), (tmp_path / "c", ["dog"])):
        task = open_like(write_coco(folder, names), like)  # a folder with one annotation file
        batch = task.test.batch(np.arange(4), 0)
        kinds = [like.fields(batch.target.elements[i, 0]).categories["category"] for i in range(4)]
        assert kinds == [names[i % len(names)] for i in range(4)]
        assert len(task.split("all")) == 4
    with pytest.raises(UserError, match="has boxes of 'bird', but the model knows cat, dog"):
        open_like(write_coco(tmp_path / "d", ["bird"]), like)


def test_a_clevr_folder_with_one_split(tmp_path, monkeypatch):
    monkeypatch.setenv("SETPREDICT_CACHE", str(tmp_path / "cache"))
    from setpredict.config import SceneOptions
    from setpredict.data.render.writer import write_scenes

    out = write_scenes(SceneOptions(tmp_path / "made", train=5, val=3, size=16))
    complete = open_path(out, size=16)
    (out / "scenes" / "CLEVR_train_scenes.json").rename(tmp_path / "train.json")
    only_val = open_path(out, size=16)
    assert [len(only_val.split(s)) for s in ("train", "val", "test")] == [0, 0, 3]
    indices = np.arange(3)
    assert torch.equal(only_val.test.batch(indices, 0).target.elements, complete.test.batch(indices, 0).target.elements)
    assert len(open_like(out, complete).test) == 3
    (out / "scenes" / "CLEVR_val_scenes.json").unlink()
    (tmp_path / "train.json").rename(out / "scenes" / "CLEVR_train_scenes.json")
    only_train = open_path(out, size=16)
    assert only_train.test is only_train.val
    assert len(open_like(out, complete).test) == len(open_like(out, complete).split("all")) == 5
    assert len(replace(only_train).train) + len(only_train.val) == 5
