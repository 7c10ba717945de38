"""Every test has a cache folder of its own, so none depends on what an earlier run left behind."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SETPREDICT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def half_written(folder: Path) -> list[str]:
    """Temporary files under `folder` (locks may stay: they are empty and belong to nobody)."""
    return [p.name for p in folder.rglob("*") if p.name.endswith((".tmp", ".part"))]
