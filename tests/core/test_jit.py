"""Kernels are compiled again when a kernel that they call has changed, in whatever file it is."""

import os
import subprocess
import sys
from pathlib import Path

CALLER = """
from setpredict.core.jit import kernel
from parts import part

@kernel
def whole(x):
    return part(x) + 1

print(whole(3), sum(whole.stats.cache_hits.values()))
"""
PART = "from setpredict.core.jit import kernel\n\n@kernel\ndef part(x):\n    return {} * x\n"


def computed(folder: Path) -> str:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    found = subprocess.run([sys.executable, "whole.py"], cwd=folder, capture_output=True, text=True, env=environment)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def test_a_changed_kernel_changes_those_that_call_it(tmp_path: Path):
    (tmp_path / "whole.py").write_text(CALLER)
    (tmp_path / "parts.py").write_text(PART.format(2))
    assert computed(tmp_path) == "7 0"
    assert computed(tmp_path) == "7 1", "the second time, it comes from the cache"
    (tmp_path / "parts.py").write_text(PART.format(5))
    assert computed(tmp_path) == "16 0"
