"""Shape checks (jaxtyping + beartype) are on for the whole package while tests run."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from jaxtyping import install_import_hook

collect_ignore_glob = ["*/conftest.py"]  # they hold no doctests, and two modules of one name collide

install_import_hook("setpredict", "strict_types.check")

settings.register_profile("setpredict", max_examples=25, deadline=None)
settings.load_profile("setpredict")

torch.set_num_threads(1)  # two pytest workers share two cores


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets, or a skip that says what to do."""
    folder = os.environ.get("SETPREDICT_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("SETPREDICT_DATA does not name a folder with the real data sets")
    return Path(folder)
