"""Predicting needs no training code."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["predict", "loaded", "folder", "card", "shipped"])
def test_loading_and_predicting_import_nothing_of_training(module: str):
    code = f"import sys, setpredict.runs.{module}\nprint([m for m in sys.modules if 'setpredict.training' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stdout + done.stderr
