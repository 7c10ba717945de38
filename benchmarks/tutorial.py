"""`python -m benchmarks.tutorial` follows docs/tutorial.md to the letter: it runs all commands in runs/tutorial, and
stores the scores (results/tutorial.json) and the pictures (docs/images/tutorial-*.png) that the page shows.

A training that was interrupted is resumed, a finished one is kept. With --pictures, nothing is trained or generated.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path

from PIL import Image

from setpredict.cli.main import run as command
from setpredict.core.files import atomic, write_text

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "runs" / "tutorial"
RUN = Path("runs/folder-0")
WIDTH = 760
"""Of the pictures on the page, in pixels."""


def commands(page: str) -> list[list[str]]:
    """The words after `setpredict` of every command of the page, in order."""
    blocks = "".join(re.findall(r"```sh\n(.*?)```", page, re.S))
    return [shlex.split(line)[1:] for line in blocks.splitlines() if line.startswith("setpredict ")]


def main() -> int:
    PLACE.mkdir(parents=True, exist_ok=True)
    os.chdir(PLACE)
    for words in commands((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")):
        if words[0] == "train" and (RUN / "last.ckpt").exists():
            words = ["train", "--resume", str(RUN)]
        if words[0] in ("scenes", "train") and "--pictures" in sys.argv:
            continue
        print("setpredict", *words, flush=True)
        if code := command(words):
            return code
    _store_scores()
    _store_pictures()
    return 0


def _store_scores() -> None:
    (row,) = json.loads((RUN / "evaluation-test.json").read_text(encoding="utf-8"))
    done = json.loads((RUN / "done.json").read_text(encoding="utf-8"))
    origin = json.loads((RUN / "origin.json").read_text(encoding="utf-8"))
    record = {"minutes": done["seconds"] / 60, "steps": done["step"], "hardware": origin["hardware"], "test": row}
    write_text(ROOT / "results" / "tutorial.json", json.dumps(record, indent=1) + "\n")


def _store_pictures() -> None:
    sheet = Image.open("data-check.png").convert("RGB")
    _save(sheet.crop((0, 0, sheet.width, sheet.height // 3)), "data")
    drawn = [Image.open(f"drawn/val_{i:06d}.png").convert("RGB") for i in (0, 1)]
    side_by_side = Image.new("RGB", (drawn[0].width * 2 + 8, drawn[0].height), "white")
    for i, image in enumerate(drawn):
        side_by_side.paste(image, (i * (image.width + 8), 0))
    _save(side_by_side, "drawn")


def _save(image: Image.Image, name: str) -> None:
    height = round(image.height * WIDTH / image.width)
    small = image.resize((WIDTH, height), Image.Resampling.LANCZOS).quantize(128)
    path = ROOT / "docs" / "images" / f"tutorial-{name}.png"
    with atomic(path) as temporary:
        small.save(temporary, "PNG", optimize=True)
    print(f"Written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
