"""The screenshots of the documentation are those that `make screenshots` takes."""

import re
from pathlib import Path

from tests.web.screenshots import IMAGES, REPORT, SHOTS

ROOT = Path(__file__).parents[2]


def test_every_screenshot_is_taken_by_the_command_and_shown_somewhere():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    shown = {
        name for page in pages for name in re.findall(r"images/((?:web-[\w-]+|report)\.png)", page.read_text("utf-8"))
    }
    taken = {*SHOTS, REPORT}
    assert shown == taken
    assert {path.name for path in IMAGES.glob("web-*.png")} | {REPORT} == taken
