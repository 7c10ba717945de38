"""The tab of the user's own runs in a real Chromium, for every kind of elements."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from setpredict.data.sources.memory import memory
from setpredict.data.sources.multisets import multisets
from setpredict.data.sources.scenes import scenes
from setpredict.data.task import SetTask
from tests.web.conftest import checked
from tests.web.page import PHONE, WIDE, Page
from tests.web.served import Running, tiny

pytestmark = pytest.mark.web


def drawn(kind: str, features: int) -> SetTask:
    """Vectors of 3 numbers and sets of up to 4 elements."""
    rng = np.random.default_rng(0)
    inputs, sets = rng.uniform(size=(30, 3)), [rng.uniform(size=(1 + i % 4, features)) for i in range(30)]
    return memory((inputs, sets), kind=kind)  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="module")
def runs_address() -> Iterator[str]:
    tasks = {
        "run-points": multisets(5, variable=True, test=7),
        "run-vectors": drawn("vectors", 5),
        "run-boxes": scenes("box", size=64, max_objects=4, test=3),
        "run-states": scenes("state", size=64, max_objects=4, test=3),
    }
    with Running({name: tiny(name, task) for name, task in tasks.items()}) as address:
        yield address


@pytest.fixture(params=[WIDE, PHONE], ids=["wide", "phone"])
def page(request: pytest.FixtureRequest, driver: Any, runs_address: str) -> Iterator[Page]:
    yield from checked(Page(driver, runs_address), request.param)


def choose(page: Page, name: str) -> None:
    page.run(
        "const s = document.querySelector('#panel-run select'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('change'))",
        name,
    )
    page.settled("run")


def photo() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (90, 60), "teal").save(buffer, "PNG")
    return buffer.getvalue()


FILES = {
    "run-points": ("set.json", b"[[0.2, 0.3], [0.8, 0.9]]"),
    "run-vectors": ("vector.json", b"[0.1, 0.2, 0.3]"),
    "run-boxes": ("photo.png", photo()),
    "run-states": ("photo.png", photo()),
}


def test_every_kind_shows_samples_and_takes_uploads(page: Page):
    page.open()
    page.settled("run")  # with runs, the page opens there
    for name, (file, content) in FILES.items():
        choose(page, name)
        assert page.ink(page.find("#panel-run .seen")) > 20, name
        assert page.ink(page.find("#panel-run .answers canvas")) > 20, name
        assert page.box("#panel-run .answers canvas")["bottom"] <= page.run("return innerHeight"), name
        before = page.texts("#panel-run .seen-facts")
        page.click("#panel-run .after")
        page.until(lambda before=before: page.texts("#panel-run .seen-facts") != before)
        rows = page.texts("#panel-run tbody tr")
        assert bool(rows) == (name in ("run-vectors", "run-states")), name
        page.drop("#panel-run", file, content, "application/json")
        page.until(lambda file=file: page.texts("#panel-run .seen-facts")[0].startswith(file))
        page.settled("run")
        assert page.ink(page.find("#panel-run .answers canvas")) > 20, name


def test_numbers_of_vectors_are_in_the_units_of_the_data(page: Page):
    page.open()
    page.settled("run")
    choose(page, "run-vectors")
    tables = page.texts("#panel-run caption")
    assert [t.partition(" at")[0] for t in tables] == ["Predicted", "Ground truth"]
    shown = page.run(
        "return [...document.querySelectorAll('#panel-run table')[1].rows[1].cells].map(c => c.textContent)"
    )
    task = drawn("vectors", 5)
    truth = task.denormalize(task.test.batch(np.array([0]), 0).target.to_list()[0])[0]
    assert json.loads(f"[{shown[1]}]") == pytest.approx(truth.tolist(), abs=0.006)


def test_a_wrong_file_says_what_is_expected(page: Page):
    page.open()
    page.settled("run")
    choose(page, "run-vectors")
    page.drop("#panel-run", "short.json", b"[1, 2]", "application/json")
    page.until(lambda: "short.json is [1,2]; expected a list of 3 numbers." in page.find("#problem").text)
