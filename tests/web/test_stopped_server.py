"""A server that stops while the page is open, in a real Chromium."""

from __future__ import annotations

from typing import Any

import pytest

from setpredict.web.catalog import Served
from tests.web.page import PHONE, WIDE, Page
from tests.web.served import Running

pytestmark = pytest.mark.web
STOPPED = "The server has stopped. Start setpredict serve again."


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_stale_answers_are_cleared_and_retry_works_when_it_is_back(
    driver: Any, models: dict[str, Served], size: tuple[int, int]
):
    first = Running(models)
    with first as address:
        page = Page(driver, address)
        page.resize(*size)
        page.media()
        page.open("points")
        page.settled("points")
    page.find("#panel-points [data-do=random]").click()
    page.until(lambda: STOPPED in page.find("#problem").text)
    assert page.texts("#panel-points .answers .facts") == ["", ""]
    assert all(page.ink(canvas) == 0 for canvas in page.all("#panel-points .answers canvas"))
    assert page.ink(page.find("#panel-points .pad")) > 0, "the points of the user stay"
    retry = page.find("#problem button")
    assert retry.text == "Retry"
    retry.click()
    page.until(lambda: STOPPED in page.find("#problem").text)  # it is still stopped
    with Running(models, port=int(address.rpartition(":")[2])):
        retry.click()
        page.settled("points")
        assert not page.find("#problem").is_displayed()
        assert all(page.ink(canvas) > 0 for canvas in page.all("#panel-points .answers canvas"))
    page.errors()  # Chromium logs requests without an answer


def test_a_page_that_finds_no_server_can_retry(driver: Any, models: dict[str, Served]):
    with Running(models) as address:
        page = Page(driver, address)
        page.resize(*WIDE)
        page.media()
        with page.without_api():
            page.open("points")
            page.until(lambda: STOPPED in page.find("#problem").text)
            page.click("#tab-polygons")  # before the models are known
        page.find("#problem button").click()
        page.settled("polygons")
        page.click("#tab-points")
        page.settled("points")
        assert page.find("#panel-points .workbench").is_displayed()
    page.errors()
