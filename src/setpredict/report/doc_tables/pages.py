"""Put the generated tables between their markers in the pages of the documentation."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from setpredict.config import DataConfig, DecoderConfig, EncoderConfig, InputConfig, LossConfig, TrainConfig
from setpredict.core.errors import UserError
from setpredict.core.files import write_text
from setpredict.report.doc_tables.measured import (
    demo_table,
    distributed_table,
    methods_table,
    sweep_table,
    tutorial_table,
)
from setpredict.report.doc_tables.names import public_names_table
from setpredict.report.doc_tables.options import option_table

TABLES: dict[str, Callable[[Path], str]] = {
    "options-data": lambda root: option_table(DataConfig, "data"),
    "options-input": lambda root: option_table(InputConfig, "input"),
    "options-encoder": lambda root: option_table(EncoderConfig, "encoder"),
    "options-decoder": lambda root: option_table(DecoderConfig, "decoder"),
    "options-loss": lambda root: option_table(LossConfig, "loss"),
    "options-train": lambda root: option_table(TrainConfig),
    "public-names": lambda root: public_names_table(),
    "demo": lambda root: demo_table(root / "results" / "demo.json"),
    "polygons": lambda root: sweep_table(root / "results" / "polygons.json"),
    "tutorial": lambda root: tutorial_table(root / "results" / "tutorial.json"),
    "methods": lambda root: methods_table(root / "results"),
    "distributed": lambda root: distributed_table(root / "benchmarks" / "results" / "distributed.json"),
}
"""Every table by the name in its markers, as a function of the root folder of the repository."""
MARKED = re.compile(r"(<!-- begin: (?P<name>[^>]*?) -->\n)(?P<table>.*?)(<!-- end: (?P<end>[^>]*?) -->)", re.DOTALL)


def updated(page: Path) -> str:
    """The text of a page with all tables between `<!-- begin: NAME -->` and `<!-- end: NAME -->` generated again."""
    old = page.read_text(encoding="utf-8")
    root = next((folder for folder in page.absolute().parents if (folder / "pyproject.toml").is_file()), page.parent)

    def replace(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in TABLES or found["end"] != name:
            problem = f"ends with {found['end']!r}" if name in TABLES else f"is unknown; known are {', '.join(TABLES)}"
            raise UserError(f"{page}: the table {name!r} {problem}")
        return f"{found[1]}\n{TABLES[name](root)}\n{found[4]}"

    text, count = MARKED.subn(replace, old)
    if count != len(re.findall("<!-- (?:begin|end): ", old)) / 2:
        raise UserError(f"{page}: every <!-- begin: NAME --> needs an <!-- end: NAME --> after it, at the line's start")
    return text


def update(page: Path) -> bool:
    """Rewrite the generated tables of a page; returns whether anything changed."""
    text = updated(page)
    if text == page.read_text(encoding="utf-8"):
        return False
    write_text(page, text)
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite the tables of README.md and docs/*.md in the current folder, or only check them (`--check`)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words not in ([], ["--check"]):
        print("usage: python -m setpredict.report.doc_tables [--check]", file=sys.stderr)
        return 2
    pages = [page for page in (Path("README.md"), *sorted(Path("docs").glob("*.md"))) if page.is_file()]
    changed = []
    try:
        for page in pages:
            if updated(page) != page.read_text(encoding="utf-8") if words else update(page):
                changed.append(page)
    except UserError as e:
        print(e, file=sys.stderr)
        return 2
    for page in changed:
        print(f"{page} is out of date: run python -m setpredict.report.doc_tables" if words else f"Written: {page}")
    return 1 if words and changed else 0
