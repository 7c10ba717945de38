"""The site of `setpredict site` in a real Chromium, from a plain file server: models run in the browser."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

from setpredict.cli.main import run
from setpredict.runs.loaded import load
from setpredict.sets import Sets
from tests.web.page import PHONE, WIDE, Page

pytestmark = [
    pytest.mark.web,
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm, which fetches onnxruntime-web, is not installed"),
]
pytest.importorskip("onnxscript", reason="make test-web installs it")

POINTS = [[0.2, 0.3], [0.8, 0.2], [0.5, 0.8], [0.1, 0.9]]
VECTOR = [0.6, 0.8, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]


class Silent(SimpleHTTPRequestHandler):
    """Python's file server, without its log."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("static") / "site"
    assert run(["site", str(out)]) == 0
    return out


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def place(folder: Path) -> Iterator[str]:
    with serving(folder) as address:
        yield address


@pytest.fixture
def site(driver: Any, place: str) -> Iterator[Page]:
    driver.get_log("browser")
    found = Page(driver, place)
    found.resize(*WIDE)
    found.media()
    yield found
    assert found.errors() == []
    assert [name for name in resources(found) if not name.startswith((place, "data:", "blob:"))] == []


def resources(site: Page) -> list[str]:
    """The addresses of everything that the page has loaded."""
    return site.run("return performance.getEntriesByType('resource').map(e => e.name)")


def test_points_come_back(site: Page):
    site.open()
    site.settled("points")
    assert site.texts("[role=tab]") == ["Points", "Digits", "Polygons"]
    assert site.texts("#panel-points .answers .found")[0] == "8 of 8 recovered"
    assert site.find("#panel-points .slider").get_attribute("max") == "40"
    assert "in your browser" in site.find("footer").text
    before = site.texts("#panel-points .answers .facts")
    site.click("#panel-points [data-do=random]")
    site.until(lambda: site.texts("#panel-points .answers .facts") != before)


def test_digits_and_polygons_take_shape(site: Page):
    for tab in ("digits", "polygons"):
        site.open(tab)
        site.settled(tab)
        canvases = site.all(f"#panel-{tab} .answers canvas")
        assert len(canvases) == 2
        assert all(site.ink(canvas) > 100 for canvas in canvases)
    assert not site.find("[data-do=sample]").is_displayed()
    site.until(lambda: site.find("#panel-polygons .jumps").text)  # the sweep over all angles


@pytest.mark.parametrize("name", ["points-idspn", "points-dspn", "points-mlp", "polygons-dspn", "polygons-mlp"])
def test_the_browser_decodes_as_pytorch_does(name: str, site: Page):
    site.open("points")
    site.settled("points")
    model, is_set = load(name).model, name.startswith("points")
    with torch.no_grad():
        input = Sets.from_list([POINTS], max_size=10) if is_set else torch.tensor([VECTOR])
        expected = model.eval()(input, steps=6 if model.steps else None)
    body = {"points": POINTS} if is_set else {"vector": VECTOR}
    found = site.driver.execute_async_script(
        "const [name, body, done] = arguments;"
        "import(new URL('static/api.js', location.href)).then((api) => api.decode(name, body)).then(done)",
        name,
        {**body, "steps": 6},
    )
    assert found["steps"] == (6 if model.steps else 0)
    torch.testing.assert_close(torch.tensor(found["elements"]), expected.elements[:, 0], rtol=0, atol=1e-4)
    torch.testing.assert_close(torch.tensor(found["mask"]), expected.mask[:, 0].clamp(0, 1), rtol=0, atol=1e-4)
    assert (found["repr_loss"] is None) == (expected.repr_loss is None)


def test_it_fits_a_phone(site: Page):
    site.resize(*PHONE)
    site.open()
    site.settled("points")
    assert site.run("return document.documentElement.scrollWidth") <= PHONE[0]


def test_it_is_on_the_front_page_of_the_documentation(folder: Path, tmp_path: Path, driver: Any):
    pytest.importorskip("mkdocs", reason="make docs installs it")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "SETPREDICT_DEMO": "1", "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    shutil.copytree(folder, tmp_path / "demo")
    docs = Page(driver, "")
    docs.resize(*WIDE)
    driver.get(f"file://{tmp_path}/index.html")
    assert "python -m http.server" in docs.find("#demo").text
    with serving(tmp_path) as address:
        driver.get(f"{address}/index.html")
        driver.switch_to.frame(docs.find("#demo iframe"))
        docs.settled("points")
        assert docs.texts("#panel-points .answers .found")[0] == "8 of 8 recovered"
        driver.switch_to.default_content()
        driver.get("about:blank")


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture):
    (tmp_path / "thesis.txt").write_text("irreplaceable")
    assert run(["site", str(tmp_path)]) == 2
    assert "has files that are not of a site; give a new folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_without_npm_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["site", str(tmp_path / "site")]) == 2
    assert "npm not found" in capsys.readouterr().err
    assert not (tmp_path / "site").exists()  # so that the same command works with npm
