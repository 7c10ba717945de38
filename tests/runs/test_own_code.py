"""Code of the user's own: imported for runs that the user trained here or allows, and for no others."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from setpredict.config import EncoderConfig
from setpredict.core.errors import UserError
from setpredict.report.page import write_reports
from setpredict.report.plot import plot_run
from setpredict.runs.evaluate import evaluate_run
from setpredict.runs.fit import fit
from setpredict.runs.folder import RunFolder
from setpredict.runs.loaded import load
from setpredict.runs.train import train_run
from tests.training.tiny_experiment import tiny_experiment

CODE = """
import os
from pathlib import Path
from torch import nn

Path(os.environ["SIGN"]).write_text("imported")

class Mine(nn.Module):
    def __init__(self, features, latent, max_size):
        super().__init__()
        self.lift = nn.Linear(features, latent)

    def forward(self, elements, mask=None):
        return self.lift(elements).tanh().sum(1)
"""
QUIET = Console(quiet=True)
REFUSED = "asks for the code 'own_.*:Mine', and you did not train it on this machine; if you trust it, add --allow"


@pytest.fixture
def own(tiny, tmp_path, monkeypatch, request):
    """A run with an encoder of the user's own, trained in a folder that holds its module."""
    module = f"own_{abs(hash(request.node.name))}"
    monkeypatch.setenv("SETPREDICT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SIGN", str(tmp_path / "sign"))
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    work = tmp_path / "work"
    work.mkdir()
    (work / f"{module}.py").write_text(CODE)
    monkeypatch.chdir(work)
    tiny.encoder = EncoderConfig(f"{module}:Mine")
    tiny.input = replace(tiny.input, shared=True)
    train_run(tiny, "runs/mine", console=QUIET)
    forget(module, monkeypatch)
    return work / "runs" / "mine"


def forget(module: str, monkeypatch) -> None:
    """As a new process would be: nothing imported, the folder not searched."""
    sys.modules.pop(module, None)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if Path(p) != Path.cwd()])
    Path(os.environ["SIGN"]).unlink(missing_ok=True)


def was_imported() -> bool:
    return Path(os.environ["SIGN"]).exists()


def module_of(run: Path) -> str:
    return RunFolder(run).read_experiment().encoder.kind.partition(":")[0]


USES = {
    "load": lambda run, **allow: load(run, **allow),
    "evaluate": lambda run, **allow: evaluate_run(run, **allow),
    "plot": lambda run, **allow: plot_run(run, [0], **allow),
    "report": lambda run, **allow: write_reports([run], **allow),
    "resume": lambda run, **allow: train_run(
        RunFolder(run).read_experiment(), run, resume=True, console=QUIET, **allow
    ),
}


@pytest.mark.parametrize("use", USES)
def test_the_users_own_run_needs_no_permission_from_any_folder(own, use, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    USES[use](own)
    assert was_imported()


@pytest.mark.parametrize("use", USES)
def test_a_copied_run_imports_nothing_without_permission(own, use, tmp_path, monkeypatch):
    """As a downloaded one, with the module beside it and the token of its training."""
    copy = tmp_path / "downloaded" / "mine"
    shutil.copytree(own, copy)
    shutil.copy(own.parents[1] / f"{module_of(own)}.py", copy)
    assert RunFolder(copy).read_token() == RunFolder(own).read_token()
    monkeypatch.chdir(copy)
    before = list(sys.path)
    with pytest.raises(UserError, match=REFUSED):
        USES[use](copy)
    assert not was_imported()
    assert sys.path == before
    USES[use](copy, allow_own_code=True)
    assert was_imported()


def test_initial_weights_of_a_copied_run_need_permission(own, tmp_path):
    copy, experiment = tmp_path / "downloaded", RunFolder(own).read_experiment()
    shutil.copytree(own, copy)
    train_run(experiment, own.with_name("tuned"), init_from=own, console=QUIET)
    with pytest.raises(UserError, match=REFUSED):
        train_run(experiment, own.with_name("other"), init_from=copy, console=QUIET)
    assert not own.with_name("other").exists()
    train_run(experiment, own.with_name("other"), init_from=copy, allow_own_code=True, console=QUIET)


def test_other_code_in_the_users_own_run_needs_permission(own, tmp_path):
    """Files that something else wrote over those of the run."""
    best = RunFolder(own).best_path / "config.json"
    best.write_text(best.read_text().replace(f"{module_of(own)}:Mine", "evil:Mine"))
    with pytest.raises(UserError, match="asks for the code 'evil:Mine', and you did not train it"):
        load(own)


def test_a_record_is_for_one_folder(own, tmp_path, monkeypatch):
    moved = own.with_name("moved")
    own.rename(moved)
    with pytest.raises(UserError, match="you did not train it on this machine"):
        load(moved)
    moved.rename(own)
    load(own)
    monkeypatch.setenv("SETPREDICT_CACHE", str(tmp_path / "another users"))
    with pytest.raises(UserError, match="you did not train it on this machine"):
        load(own)


@pytest.mark.parametrize("token", ["", "../../../etc/passwd", "\x00", "é", "a" * 100_000])
def test_any_token_is_harmless(own, token):
    RunFolder(own).token_path.write_text(token, encoding="utf-8")
    with pytest.raises(UserError, match="you did not train it on this machine"):
        load(own)


def test_a_run_of_built_in_parts_has_no_token_and_no_record(tiny, run_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SETPREDICT_CACHE", str(tmp_path / "cache"))
    train_run(tiny, run_folder, console=QUIET)
    assert not RunFolder(run_folder).token_path.exists()
    assert not (tmp_path / "cache").exists()


def test_a_cache_folder_that_cannot_be_written_stops_no_training(tiny, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("SETPREDICT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SIGN", str(tmp_path / "sign"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_unrecorded.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    tiny.encoder = EncoderConfig("own_unrecorded:Mine")
    train_run(tiny, "runs/mine", console=QUIET)
    with pytest.raises(UserError, match="you did not train it on this machine"):
        load("runs/mine")
    inputs = [[[float(n), 1.0]] for n in range(8)]
    short = {"train.max_steps": 1, "train.batch_size": 4, "encoder.kind": "own_unrecorded:Mine"}
    assert fit((inputs, inputs), folder="runs/fitted", options=short, console=QUIET).method == "iDSPN"


STARTS = {
    "setpredict": ["-c", "import sys; sys.path.remove(''); from setpredict.cli.main import main; main()"],
    "python -m setpredict": ["-m", "setpredict"],
}


@pytest.fixture(scope="module")
def downloaded(tmp_path_factory) -> Path:
    """A run that asks for the module beside it, and a module that optional imports of libraries would find."""
    folder = tmp_path_factory.mktemp("downloaded")
    for name in ("evilmod.py", "triton.py"):
        (folder / name).write_text("from pathlib import Path\nPath('hacked').touch()\n")
    train_run(tiny_experiment(), folder / "good", console=QUIET)
    shutil.copytree(folder / "good", folder, dirs_exist_ok=True)
    best = RunFolder(folder).best_path / "config.json"
    best.write_text(best.read_text().replace('"kind": "mlp"', '"kind": "evilmod:X"', 1))
    return folder


@pytest.mark.parametrize(
    ("command", "start"),
    [
        (["predict", ".", "[[0, 0]]"], "setpredict"),
        (["predict", ".", "[[0, 0]]"], "python -m setpredict"),
        pytest.param(["evaluate", "."], "setpredict", marks=pytest.mark.slow),
        pytest.param(["plot", "."], "setpredict", marks=pytest.mark.slow),
        pytest.param(["report", "."], "setpredict", marks=pytest.mark.slow),
        (["serve", "--run", ".", "--port", "0"], "setpredict"),
    ],
)
def test_no_command_imports_anything_from_the_current_folder(downloaded, command, start):
    command = [sys.executable, *STARTS[start], *command]
    done = subprocess.run(command, capture_output=True, text=True, cwd=downloaded, timeout=120)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "asks for the code 'evilmod:X'" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert not (downloaded / "hacked").exists()
