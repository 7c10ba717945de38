"""A server with small models of every kind, for all tests of the web page."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from setpredict.data.sources.multisets import multisets
from setpredict.data.sources.polygons import polygons
from setpredict.data.sources.scenes import scenes
from setpredict.web.catalog import Served
from tests.web.served import Running, tiny


@pytest.fixture(scope="session")
def models() -> dict[str, Served]:
    points = multisets(5, variable=True, test=7)
    state = scenes("state", size=64, max_objects=4, test=3)
    return {
        s.name: s
        for s in (
            tiny("points-dspn", points),
            tiny("points-mlp", points, "mlp"),
            tiny("polygons-dspn", polygons(test=5)),
            tiny("scenes-state", state),
            tiny("scenes-box", scenes("box", size=64, max_objects=4, test=3)),
        )
    }


@pytest.fixture(scope="session")
def client(models: dict[str, Served]) -> Iterator[httpx.Client]:
    with Running(models) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client
