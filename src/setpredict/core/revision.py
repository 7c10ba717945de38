"""Which version of the code made a number, and on what machine."""

from __future__ import annotations

import json
import platform
import subprocess
from functools import cache
from pathlib import Path

from setpredict import __version__


@cache
def revision() -> str:
    """The git revision of this checkout, marked if it has uncommitted changes, or the version of the package.

    Of a process's first call, since what it has loaded does not change with the files.
    """
    here = Path(__file__)
    try:
        _git(here, "ls-files", "--error-unmatch", here.name)  # else the repository around us is somebody else's
        return _git(here, "describe", "--always", "--dirty", "--abbrev=12")
    except (OSError, subprocess.SubprocessError):
        return __version__


def hardware() -> str:
    """Processor, threads and torch, in a few words."""
    import torch

    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{platform.machine()}{gpu}, threads: {torch.get_num_threads()}, torch {torch.__version__}"


def origin(folder: Path) -> dict[str, str]:
    """The code and machine that a run was begun with."""
    path = folder / "origin.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {"hardware": hardware(), "revision": revision()} | known


def _git(file: Path, *words: str) -> str:
    command = ["git", "-C", str(file.parent), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
