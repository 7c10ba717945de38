"""The revision in records: that of the package, marked if it was changed."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import torch

from setpredict.core import revision as module


def loaded(path: Path) -> str:
    """The revision that a copy of the module finds where it is."""
    spec = importlib.util.spec_from_file_location("copied_revision", path)
    assert spec is not None
    assert spec.loader is not None
    copied = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copied)
    return copied.revision()


def test_only_changes_of_the_package_mark_a_revision(tmp_path):
    def git(*arguments: str) -> str:
        name = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        return subprocess.run(
            ["git", "-C", str(tmp_path), *name, *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    file, record = tmp_path / "src" / "package" / "core" / "revision.py", tmp_path / "results" / "table.json"
    for path in (file, record):
        path.parent.mkdir(parents=True)
    shutil.copyfile(str(module.__file__), file)
    assert loaded(file) == module.__version__  # no repository yet
    record.write_text("{}")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    committed = git("rev-parse", "--short=12", "HEAD")
    assert loaded(file) == committed
    record.write_text("{1}")  # what the first of two commands wrote
    assert loaded(file) == committed
    file.write_text(file.read_text() + "# changed\n")
    assert loaded(file) == committed + "-dirty"


def test_a_gpu_that_is_not_used_is_not_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    assert "GPU" not in module.hardware()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert ", a GPU, " in module.hardware()
