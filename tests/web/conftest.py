"""A server with small models of every kind, for all tests of the web page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from setpredict.data.sources.multisets import multisets
from setpredict.data.sources.polygons import polygons
from setpredict.data.sources.scenes import scenes
from setpredict.web.catalog import Served, load_catalog
from setpredict.web.limits import Limits
from tests.web.browser import chromium, missing
from tests.web.page import PHONE, WIDE, Page
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


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """A server with the shipped models. Each has answered once: the first answer may have to wait for the compiler."""
    models = load_catalog()
    inputs = {"set": {"points": [[0.5, 0.5]]}, "vector": {"vector": [0.0] * 8}, "image": {"sample": 0}}
    with Running(models, Limits(seconds=300)) as address:
        for name, served in models.items():
            body = inputs[served.task.input_kind]
            httpx.post(f"{address}/api/{name}/decode", json=body, timeout=300).raise_for_status()
        yield address


@pytest.fixture(scope="session")
def tiny_address(models: dict[str, Served]) -> Iterator[str]:
    """A server with small models, for what does not depend on how good they are."""
    with Running(models) as address:
        yield address


@pytest.fixture(params=[WIDE, PHONE], ids=["wide", "phone"])
def page(request: pytest.FixtureRequest, driver: Any, address: str) -> Iterator[Page]:
    """The page with the shipped models; its console must stay without errors."""
    yield from checked(Page(driver, address), request.param)


@pytest.fixture(params=[WIDE, PHONE], ids=["wide", "phone"])
def tiny_page(request: pytest.FixtureRequest, driver: Any, tiny_address: str) -> Iterator[Page]:
    """The page with small models."""
    yield from checked(Page(driver, tiny_address), request.param)


def checked(page: Page, size: tuple[int, int]) -> Iterator[Page]:
    page.resize(*size)
    page.media()
    page.errors()  # forget those of other pages
    yield page
    assert page.errors() == []
    assert page.run("return document.documentElement.scrollWidth") <= size[0], "the page scrolls sideways"


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Chromium that keeps what its console says."""
    if reason := missing():
        pytest.skip(reason)
    driver = chromium(tmp_path_factory.mktemp("chromium"))
    yield driver
    driver.quit()
