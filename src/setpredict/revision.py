"""Which version of the code made a number."""

from __future__ import annotations

import subprocess
from pathlib import Path

from setpredict import __version__


def revision() -> str:
    """The git revision of this checkout, marked if it has uncommitted changes, or the version of the package."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return __version__
    return done.stdout.strip()
