"""`load` and `open_path`: data sets by name and by path, without heavy imports before they are needed."""

import inspect
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from setpredict.config import DataConfig
from setpredict.core.errors import UserError
from setpredict.data import NAMES, load
from setpredict.data.locate import open_path


def test_names_and_options_import_without_torch_numba_and_numpy():
    code = (
        "import sys, setpredict.config, setpredict.data, setpredict.data.locate;"
        "sys.exit(', '.join({'torch', 'numba', 'numpy'} & set(sys.modules)) or 0)"
    )
    child = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (child.returncode, child.stderr) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_source_whose_defaults_agree_with_the_configuration(name: str):
    source = getattr(import_module(f"setpredict.data.sources.{name}"), name)
    config = DataConfig()
    shared = {"target", "boxes", "size", "duplicates", "variable", "dim", "min_objects", "max_objects", "seed"}
    options = {n: p.default for n, p in inspect.signature(source).parameters.items() if n in shared}
    assert options == {n: getattr(config, n) for n in options}


def test_unknown_names_and_negative_seeds():
    with pytest.raises(UserError, match="unknown data set 'mnits'; expected one of multisets, polygons, numbering"):
        load("mnits")
    with pytest.raises(UserError, match="the seed of a data set must be at least 0, got -1"):
        load("polygons", seed=-1)


def test_paths_without_a_data_set(tmp_path: Path):
    with pytest.raises(UserError, match="nowhere does not exist"):
        open_path(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"contains no data set: expected train.jsonl, scenes/CLEVR"):
        open_path(tmp_path)
    (tmp_path / "a.csv").write_text("1,2")
    with pytest.raises(UserError, match="is a file, expected a folder or a COCO annotation file"):
        open_path(tmp_path / "a.csv")


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.jsonl").write_text(json.dumps({"input": [1], "set": [[1, 2]]}))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_path("~/mine").name == "mine"
