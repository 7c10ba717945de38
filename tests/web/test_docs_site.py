"""The documentation site in a real Chromium: opened as files, without a server; search, pictures, dark mode, phones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.web.page import Page

pytestmark = pytest.mark.web
pytest.importorskip("mkdocs", reason="make docs installs it")
pytest.importorskip("selenium", reason="make test-web installs it")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def loaded(driver: Any) -> list[str]:
    """The addresses of everything that the page has loaded."""
    return driver.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")


def severe(driver: Any) -> list[str]:
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.mark.parametrize("page", ["index", "gallery", "method", "RESULTS", "reference/DSPN", "notebooks/points"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_need_no_network_and_fit(page: str, width: int, site: Path, driver: Any):
    Page(driver, "").resize(width, 900)
    driver.get(f"file://{site}/{page}.html")
    assert [name for name in loaded(driver) if not name.startswith(("file:", "data:"))] == []
    assert severe(driver) == []
    broken = driver.execute_script(
        "return [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
    )
    assert broken == []
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width + 1


def test_search_works_without_a_server(site: Path, driver: Any):
    from selenium.webdriver.support.ui import WebDriverWait

    Page(driver, "").resize(1280, 900)
    driver.get(f"file://{site}/index.html")
    field = driver.find_element("css selector", ".md-search__input")
    driver.execute_script("arguments[0].focus()", field)
    field.send_keys("suggest_step_size")
    found = WebDriverWait(driver, 60).until(lambda d: d.find_elements("css selector", ".md-search-result__link"))
    assert any("suggest_step_size" in link.get_attribute("href") for link in found)
    assert severe(driver) == []


def test_dark_mode_can_be_chosen(site: Path, driver: Any):
    Page(driver, "").media()
    driver.get(f"file://{site}/index.html")
    scheme = "return document.body.getAttribute('data-md-color-scheme')"
    before = driver.execute_script(scheme)
    driver.execute_script("document.querySelector('form[data-md-component=palette] label:not([hidden])').click()")
    assert {before, driver.execute_script(scheme)} == {"default", "slate"}
