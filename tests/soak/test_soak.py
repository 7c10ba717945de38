"""A short soak test, and that it would notice what it looks for."""

import random
import shutil
import sys
from pathlib import Path

import pytest

from tests.soak.__main__ import soak
from tests.soak.damage import Damage, damage
from tests.soak.http_fuzz import STRANGE, announced, http, spoiled
from tests.soak.kills import _compare, finished_state
from tests.soak.tally import Tally
from tests.soak.worker import main as train

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in Linux's /proc")


@pytest.mark.slow
def test_nothing_is_lost_in_a_short_soak():
    tally = soak(minutes=0, steps=60, rounds=1, requests=60)
    assert tally.problems == []
    tried = {name: tally.counts[name] for name in ("kills", "damaged", "rank runs", "requests", "valid")}
    assert min(tried.values()) > 0, tried
    assert tally.table().row_count == 10


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("soak") / "run"
    assert train(folder, 30) == 0
    return folder


def test_damage_is_recovered_or_refused(finished, tmp_path):
    tally, tries = Tally(), Damage(finished, tmp_path / "copy", 30)
    for seed in range(8):
        tries.try_one(random.Random(seed), tally)
    assert tally.problems == []
    assert tally.counts["recovered"] + tally.counts["refused"] == tally.counts["damaged"] > 0


def test_damage_that_is_used_would_be_noticed(finished, tmp_path, monkeypatch):
    """Without checksums, flipped bits are."""
    monkeypatch.setattr("setpredict.training.checkpoint.verify_zip_checksum", lambda path: None)
    monkeypatch.setattr("setpredict.core.weights.verify_safetensors_checksum", lambda path: None)
    tally, tries = Tally(), Damage(finished, tmp_path / "copy", 30)
    for seed in range(8):
        tries.try_one(random.Random(seed), tally)
    assert tally.counts["damage used"] + tally.counts["tracebacks"] > 0


def test_a_run_that_differs_would_be_noticed(finished, tmp_path):
    from setpredict.runs.folder import RunFolder

    expected, tally = finished_state(RunFolder(finished)), Tally()
    shutil.copytree(finished, tmp_path / "copy")
    _compare(RunFolder(tmp_path / "copy"), expected, tally, "runs")
    assert (tally.counts["runs equal"], tally.problems) == (1, [])
    expected["log"].append(31)
    _compare(RunFolder(tmp_path / "copy"), expected, tally, "runs")
    assert tally.counts["runs differ"] == 1


def test_every_kind_of_damage_changes_the_file(tmp_path):
    seen = set()
    for seed in range(60):
        path = tmp_path / "file"
        path.write_bytes(bytes(range(1, 256)) * 8)
        before = path.read_bytes()
        kind = damage(path, random.Random(seed)).partition(" at ")[0]
        seen.add(kind)
        assert path.read_bytes() != before or kind == "swap"
    assert seen == {"flip", "flips", "cut", "cut end", "zeros", "append", "empty", "swap"}


def test_requests_are_strange_in_many_ways():
    rng = random.Random(0)
    bodies = {repr(spoiled({"points": [[0.1, 0.2]], "steps": 3}, rng)) for _ in range(300)}
    assert len(bodies) > len(STRANGE)
    assert announced(http("/", b"123")) == 3
    assert announced(b"GET / HT") > 8
