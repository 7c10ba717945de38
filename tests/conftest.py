"""Tests check the shapes and types of every call in the package, by jaxtyping and beartype."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from jaxtyping import install_import_hook

collect_ignore_glob = ["*/conftest.py"]  # they contain no doctests, and two modules of the same name would collide

install_import_hook("setpredict", "strict_types.check")

settings.register_profile("setpredict", max_examples=25, deadline=None)
settings.load_profile("setpredict")

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # "to the bit" is meant for CPUs, and two processes would need two GPUs
torch.set_num_threads(1)  # with -n 2, two workers share two cores


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with MNIST and CLEVR; tests that need them are skipped where SETPREDICT_DATA is not set."""
    folder = os.environ.get("SETPREDICT_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("SETPREDICT_DATA does not name a folder with the real data sets")
    return Path(folder)
