"""A small experiment for tests of training."""

import pytest

from setpredict.config import Experiment
from tests.training.tiny_experiment import tiny_experiment


@pytest.fixture
def tiny() -> Experiment:
    return tiny_experiment()
