"""A headless Chromium that Selenium drives."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

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


def missing() -> str:
    """What has to be installed first; empty if everything is there."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed; make test-web installs it"
    absent = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    return f"{' and '.join(absent)} not found; make test-web installs them" if absent else ""


def chromium(profile: Path) -> Any:
    """A browser with a profile in an empty folder, which keeps what its console says."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
