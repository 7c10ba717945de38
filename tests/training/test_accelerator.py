"""Training on a device that is not the CPU: nothing is left behind on the CPU, and the numbers are the same."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.training.pretend_gpu import train

SMALL = {
    "data.train": 16, "data.val": 4, "data.test": 4,
    "train.batch_size": 4, "train.max_steps": 4, "train.max_minutes": None, "train.val_every": 2, "train.threads": 1,
    "train.workers": 0, "train.pictures": False,
}  # fmt: skip
CASES = {
    "dspn": ("multisets", "dspn", {}),
    "idspn": ("multisets", "idspn", {}),
    "chamfer": ("multisets", "dspn", {"loss.set": "chamfer", "decoder.recompute": True}),
    "predicted": ("polygons", "dspn", {"decoder.initial": "predicted"}),
    "transformer": ("multisets", "transformer", {}),
    "images": ("scenes-box", "idspn", {"data.augmented": True, "input.warmup": 0.5}),
    "dense": ("scenes-state", "dspn", {"decoder.initial": "dense", "decoder.step_scale": "learned", "loss.dense": 1.0}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_on_another_device_is_that_on_the_cpu(case: str, tmp_path):
    """The CPU takes the hand-derived step and compiled kernels, the device the plain formulas: they round differently.

    Average precisions are left out, since those of untrained models depend on the order of almost equal scores.
    """
    name, method, changes = CASES[case]
    given: Any = (name, method, {**SMALL, **changes})
    command = [sys.executable, "-m", "tests.training.pretend_gpu", str(tmp_path / "device"), json.dumps(given)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    there, here = json.loads(done.stdout.splitlines()[-1]), train(tmp_path / "cpu", *given)
    assert [row["step"] for row in there] == [row["step"] for row in here]
    for ours, theirs in zip(here, there, strict=True):
        assert ours.keys() == theirs.keys()
        for key in ours.keys() - {"minutes", "samples_per_s"}:
            if not key.startswith("val_AP"):
                assert float(theirs[key]) == pytest.approx(float(ours[key]), rel=5e-3, abs=1e-6), key
