"""Every test has its own cache folder, so that none depends on what an earlier run left behind."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SETPREDICT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
