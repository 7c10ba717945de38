"""The description of a data set survives a round trip through JSON; invalid files are named."""

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch

from setpredict.core.errors import UserError
from setpredict.data.description import read_description, to_description
from setpredict.data.sources.folder import folder
from setpredict.data.sources.multisets import multisets
from setpredict.data.sources.polygons import polygons
from setpredict.data.sources.scenes import scenes
from setpredict.data.task import SPLITS, SetTask


def saved(task: SetTask, path: Path) -> Path:
    path.write_text(json.dumps(to_description(task)))
    return path


def user_task(root: Path) -> SetTask:
    records = [{"input": [[i, 2.0]], "set": [[i, "red", 3.0], [5.0, "blue", 1.0]]} for i in range(4)]
    root.mkdir()
    (root / "train.jsonl").write_text("\n".join(json.dumps(r) for r in records))
    return folder(root)


@pytest.mark.parametrize("kind", ["multisets", "polygons", "states", "boxes", "folder"])
def test_round_trip(kind: str, tmp_path: Path):
    task = {
        "multisets": multisets, "polygons": polygons, "states": scenes, "boxes": lambda: scenes("box"),
        "folder": lambda: user_task(tmp_path / "mine"),
    }[kind]()  # fmt: skip
    again = read_description(saved(task, tmp_path / "task.json"))
    for f in fields(SetTask):
        if f.name not in SPLITS:
            assert getattr(again, f.name) == getattr(task, f.name), f.name
    element = torch.rand(task.features)
    assert again.describe(element) == task.describe(element)
    assert [len(again.split(name)) for name in SPLITS] == [0, 0, 0]
    with pytest.raises(ValueError, match="only a description: its samples are not loaded"):
        again.train.batch(np.arange(1), 0)


def change(values: dict, **other) -> str:
    return json.dumps(values | other)


@pytest.mark.parametrize(("content", "message"), [
    (lambda v: "{", r"task.json is not valid JSON: .* at line 1, column 2"),
    (lambda v: "[1]", r"task.json does not describe a data set: expected an object, got \[1\]"),
    (lambda v: change(v, color=1), r"task.json does not describe a data set: unknown field 'color'"),
    (lambda v: "{}", r"task.json does not describe a data set: field 'name' is missing"),
    (lambda v: change(v, feature_names=["x"]), r"task.json does not .*: feature_names must have 2 names, got 1"),
    (lambda v: change(v, groups={"color": 5}), r"task.json does not describe a data set: 'int' object is not iterable"),
])  # fmt: skip
def test_invalid_files(content, message: str, tmp_path: Path):
    path = tmp_path / "task.json"
    path.write_text(content(to_description(polygons())))
    with pytest.raises(UserError, match=message):
        read_description(path)


def test_a_missing_file(tmp_path: Path):
    with pytest.raises(UserError, match=r"task.json not found: the description of a run's data set is expected there"):
        read_description(tmp_path / "task.json")
