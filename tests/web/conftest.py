"""A server with small models of every kind, for all tests of the web page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from setpredict.data.sources.multisets import multisets
from setpredict.data.sources.polygons import polygons
from setpredict.data.sources.scenes import scenes
from setpredict.web.catalog import Served
from tests.web.served import Running, tiny

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


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


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Chromium that keeps what its console says."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="make test-web installs selenium")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not chromedriver:
        pytest.skip("chromium and chromedriver not found; make test-web installs them")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    yield driver
    driver.quit()
