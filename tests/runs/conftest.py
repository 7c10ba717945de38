"""A small experiment and a place for its run."""

from pathlib import Path

import pytest

from setpredict.config import Experiment
from tests.training.tiny_experiment import tiny_experiment


@pytest.fixture
def tiny() -> Experiment:
    return tiny_experiment()


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "tiny"
