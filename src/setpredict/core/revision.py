"""Which version of the code computed a number, and on which machine."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from pathlib import Path

from setpredict import __version__


@cache
def revision() -> str:
    """The git revision of this checkout, marked if the package has uncommitted changes, or the version of the package.

    Files beside the package, such as records that an earlier command left in results/, are not code. The revision is
    determined at the first call: the code that a process has loaded does not change with the files.
    """
    here = Path(__file__)
    try:
        _git(here, "ls-files", "--error-unmatch", here.name)  # fails if the repository around us is not ours
        changed = _git(here, "status", "--porcelain", "--untracked-files=no", "--", str(here.parents[1]))
        return _git(here, "describe", "--always", "--abbrev=12") + ("-dirty" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return __version__


def hardware() -> str:
    """Processor, GPU if this process uses one, threads and version of torch, as one line."""
    import torch

    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_initialized() else ""
    return f"{platform.machine()}{gpu}, threads: {torch.get_num_threads()}, torch {torch.__version__}"


def _git(file: Path, *arguments: str) -> str:
    command = ["git", "-C", str(file.parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
