"""Every screenshot of the README and the documentation, from the page with the shipped models: `make screenshots`."""

from __future__ import annotations

import base64
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from setpredict.core.files import atomic
from setpredict.web.catalog import load_catalog
from tests.web.browser import chromium, missing
from tests.web.page import PHONE, WIDE, Page
from tests.web.served import Running

IMAGES = Path(__file__).parents[2] / "docs" / "images"
REPORT = "report.png"
TRAINING = (
    "setpredict train multisets --method idspn --data.points 10 --data.variable --loss.masks feature "
    "--max-steps 1000 --epochs 1000 --max-minutes None --val-every 200"
)


@dataclass(frozen=True)
class Shot:
    """A tab of the page, with all its answers shown."""

    tab: str
    scheme: str = "light"
    size: tuple[int, int] = WIDE
    until: str = ".player"
    """The picture ends below this part of the tab."""


SHOTS = {
    "web-points.png": Shot("points"),
    "web-digits-dark.png": Shot("digits", "dark"),
    "web-polygons.png": Shot("polygons", until=".sweep"),
    "web-scenes-dark.png": Shot("scenes", "dark", until=".table"),
    "web-phone.png": Shot("points", size=PHONE),
}


def main() -> None:
    """Take all screenshots and write them to docs/images."""
    if reason := missing():
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as folder:
        driver = chromium(Path(folder) / "profile")
        try:
            with Running(load_catalog()) as address:
                for name, shot in SHOTS.items():
                    take(Page(driver, address), shot, IMAGES / name)
            take_report(Page(driver, ""), Path(folder) / "points-idspn", IMAGES / REPORT)
        finally:
            driver.quit()


def take(page: Page, shot: Shot, path: Path) -> None:
    """One tab of the page, when its answers are complete."""
    width, height = shot.size
    page.resize(width, height)
    page.media(shot.scheme)
    page.open(shot.tab)
    page.settled(shot.tab)
    if shot.tab == "polygons":
        page.until(lambda: "jump" in page.find(".jumps").text, 120)
    page.run("document.activeElement.blur()")
    save(page, path, width, page.box(f"#panel-{shot.tab} {shot.until}")["bottom"] + 12)


def take_report(page: Page, folder: Path, path: Path) -> None:
    """The report of a training that ends by its number of steps, and so is the same every time."""
    command = [sys.executable, "-m", *shlex.split(TRAINING), "--name", folder.name, "--out", str(folder.parent)]
    subprocess.run(command, check=True)
    page.resize(1100, 800)
    page.media()
    page.driver.get((folder / "report.html").as_uri())
    save(page, path, 1100, 1960)


def save(page: Page, path: Path, width: float, height: float) -> None:
    """The upper part of the page as a PNG, also where it is longer than the window."""
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    asked = {"format": "png", "captureBeyondViewport": True, "clip": clip}
    shown = page.driver.execute_cdp_cmd("Page.captureScreenshot", asked)
    with atomic(path) as temporary:
        temporary.write_bytes(base64.b64decode(shown["data"]))
    print(path)


if __name__ == "__main__":
    main()
