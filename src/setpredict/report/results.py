"""RESULTS.md: all tables and figures, from the files in results/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from setpredict.core.errors import UserError
from setpredict.core.files import read_json, write_text
from setpredict.metrics.units import percent
from setpredict.report.figures.by_size import by_size
from setpredict.report.figures.results import Entry, answers, curves, metric_curves, svg
from setpredict.report.tables.paper import TABLES
from setpredict.report.tables.records import answered, lay_out, metric_names, origins, score_table, tells, timed
from setpredict.report.tables.text import markdown
from setpredict.studies import studies

SUMMARY, DETAILS = "summary.md", "<!-- details -->"
"""The text at the top of the page; and what ends the visible part of the remarks on a table."""
HEADLINES = ("clevr-state-small", "clevr-box-small", "mnist-small")
"""The tables that come first and are not folded: those of the paper."""
SHOWN = ("AP∞", "AP1", "AP0.25", "AP50", "AP70", "AP90")
"""The average precisions of the visible tables; the folded ones have all."""
INTRODUCTION = """# Results

All models were trained on a CPU. A dash under "minutes" means that training steps were the limit, on a machine of
another speed. The weights with the best validation score are tested; figures show validation scores. Nothing was chosen
by a test score.

Numbers in parentheses are those of the papers: of [DSPN](https://arxiv.org/abs/1906.06565), "the paper", the mean ±
standard deviation of six runs of up to 100 epochs on a GPU (for boxes, by the corrected evaluation of its appendix); of
[iDSPN](https://arxiv.org/abs/2111.12193), by an evaluation that differs. "(all)" means that the set loss is on all
inner steps.
"""
CLOSING = """## How to reproduce these results

`setpredict reproduce TABLE` trains a table, or continues it, and writes its records to [results/](results) (or to
`--results my-results`):

| table | data |
| --- | --- |
| `mnist` | MNIST |
| `clevr-state`, `clevr-box`, `images` | CLEVR; generated scenes if `$SETPREDICT_DATA` has no CLEVR_v1.0 |
| `renders-state`, `renders-box` | `$SETPREDICT_DATA/clevr-renders`: files in CLEVR's layout, not distributed |
| `points`, `multisets`, `numbering`, `ablations` | generated sets |

A record holds the configuration, seed, revision and all validations of its runs. `setpredict results` writes this page
from the records; `--check` fails if they differ.
"""


def write_results(results: Path, page: Path, images: Path) -> list[Path]:
    """Write the page and its figures; returns the files."""
    written = []
    for path in tables(results):
        figure = drawn(read_json(path), plain(results, path))
        if figure is not None:
            write_text(images / f"results-{path.stem}.svg", svg(figure))
            written.append(images / f"results-{path.stem}.svg")
    write_text(page, text(results, page, images))
    return [page, *written]


def differences(results: Path, page: Path, images: Path) -> str:
    """The first difference between the page and the files; empty if there is none."""
    if not page.is_file():
        return f"{page} not found; setpredict results writes it"
    want, have = text(results, page, images).splitlines(), page.read_text(encoding="utf-8").splitlines()
    for number, (a, b) in enumerate(zip([*want, ""], [*have, ""]), start=1):
        if a != b:
            return f"{page} differs from the files in {results}, first in line {number}:\n  page:  {b}\n  files: {a}"
    return "" if len(want) == len(have) else f"{page} is longer or shorter than the files in {results} say"


def tables(results: Path) -> list[Path]:
    """The files that hold tables, in the order of the studies, small scales first."""
    names = [f"{table}-{scale}" for table in studies() for scale in ("small", "medium", "paper")]
    found = [path for name in names if (path := results / f"{name}.json").is_file()]
    if not found:
        raise UserError(f"{results} has no table; setpredict reproduce mnist makes one")
    return found


def text(results: Path, page: Path, images: Path) -> str:
    """The content of the page: what was found, the headline tables, and the others folded."""
    summary = results / SUMMARY
    found = [summary.read_text(encoding="utf-8").strip() + "\n"] if summary.is_file() else []
    paths = tables(results)
    first = sorted((p for p in paths if p.stem in HEADLINES), key=lambda p: HEADLINES.index(p.stem))
    rest = [p for p in paths if p not in first]
    sections = [part for path in first for part in section(path, results, page, images)]
    sections += ["## More tables\n"] * bool(rest)
    sections += [part for path in rest for part in section(path, results, page, images, folded=True)]
    return "\n".join([INTRODUCTION, *found, *sections, CLOSING])


def section(path: Path, results: Path, page: Path, images: Path, folded: bool = False) -> list[str]:
    """The paragraphs on one table: its main columns, figure and remarks, then all columns and commands in a fold.

    A section that is `folded` shows only its heading.
    """
    content = read_json(path)
    study, entries = studies()[content["table"]], content["runs"]
    title = f"{study.title}, scale {content['scale']}"
    data = data_used(content["table"], entries)
    complete = [
        (f"**{name}**\n\n" if study.groups else "") + markdown(heads, cells)
        for name, heads, cells in lay_out(content["table"], entries)
    ]
    names = [n for n in metric_names(entries) if (n in SHOWN or not n.startswith("AP")) and tells(entries, n)]
    whole = study.by_size or (not study.groups and (folded or names == metric_names(entries)))
    main = complete if whole else []
    if not whole and not study.groups:
        main = [markdown(*score_table(content["table"], {e["row"]: e["row"] for e in entries}, entries, names))]
    other = plain(results, path)
    by_time = study.by_time or study.by_size or (not study.groups and bool(timed(entries)))
    drawing = "Validation scores by training time" if by_time else "Test scores of every variant"
    if study.by_size:
        drawing = "Test errors by the size of the sets"
    if by_time or answered(content["table"], entries):
        main.append(_image(drawing, images / f"results-{path.stem}.svg", page))
    rows = path.with_suffix(".png")
    remarks = path.with_suffix(".md")
    said, _, more = (remarks.read_text(encoding="utf-8") if remarks.is_file() else "").partition(DETAILS)
    main += [said.strip() + "\n"] if said.strip() else []
    details = [
        *([] if whole else complete),
        *([] if other is None else [time_to(other)]),
        *([_image("The first test samples, as each row predicts them", rows, page)] if rows.is_file() else []),
        *([more.strip() + "\n"] if more.strip() else []),
        origins(entries),
    ]
    what = f"commands, seeds, time, hardware ({path.name})"
    if folded:
        return [f"### {title}\n", _fold(f"Table, {what}", [f"{study.about} {data}\n", *main, *details])]
    return [f"## {title}\n\n{study.about} {data}\n", *main, _fold(f"Details, {what}", details)]


def _fold(what: str, paragraphs: Sequence[str]) -> str:
    return f"<details><summary>{what}</summary>\n\n" + "\n".join(paragraphs) + "</details>\n"


def _image(what: str, path: Path, page: Path) -> str:
    """A paragraph with an image, which is linked from the folder of the page."""
    shown = path.relative_to(page.parent) if path.is_relative_to(page.parent) else path
    return f"![{what}]({shown.as_posix()})\n"


def data_used(table: str, entries: Sequence[Entry]) -> str:
    """A sentence on the data of a table, from its runs."""
    data = entries[0]["config"]["data"]
    tested = entries[0]["evaluations"][0]["samples"]
    if data["name"] == "scenes":
        objects = f"{data['min_objects']} to {data['max_objects']} objects, {data['size']}×{data['size']} pixels"
        compared = any(name.startswith(e["row"]) for name in TABLES.get(table, {}) for e in entries)
        paper = " The paper's numbers, in parentheses, are CLEVR's and not comparable." if compared else ""
        return f"Data: generated scenes ({objects}), tested on {tested:,}.{paper}"
    folder = f" from {data['folder']}" if data["folder"] else ""
    return f"Data: {data['name']}{folder}, tested on {tested:,} samples."


def plain(results: Path, table: Path) -> Entry | None:
    """The training curve of the plain implementation, if it was measured for a table."""
    path = results / f"plain-{table.name}"
    return read_json(path) if path.is_file() else None


def drawn(content: Mapping[str, Any], other: Entry | None = None) -> Figure | None:
    """Training curves, or the answers of a study of several questions (None if there are none to compare yet)."""
    entries, groups = content["runs"], answered(content["table"], content["runs"])
    names = metric_names(entries)
    study = studies()[content["table"]]
    if study.by_size:
        return by_size(entries, names[0])
    if study.groups and not study.by_time:
        return answers(entries, groups, names[0]) if groups else None
    entries = timed(entries)
    if not entries:
        return None
    names = [n for n in names if n in entries[0]["curve"]]
    every = content["runs"]
    stepped = [e for e in every if not e.get("after")] if entries != every else []
    if len(entries) == 1 and not stepped:
        return metric_curves(entries[0], [n for n in names if percent(n)] or names[:1])
    pair = [] if other is None else [{"row": other["compares"], **other["ours"]}, other]
    return curves(entries, names[0], pair, stepped)


def time_to(other: Entry) -> str:
    """A sentence on how long our training and the plain one took to reach a validation score."""
    ours, theirs = reached(other["ours"], other["goal"]), reached(other, other["goal"])
    if ours is None or theirs is None:
        return ""
    steps = f"{other['ours']['steps_trained']:,} and {other['steps_trained']:,}"
    return (
        f"To reach a validation Chamfer loss of {1000 * other['goal']:g}e-3, {other['compares']} took {ours:.1f} "
        f"minutes and the same training with the plain implementation {theirs:.1f}, {theirs / ours:.1f} times as long, "
        f"in {steps} steps (`{other['command']}`, one run each, load {other['machine']['load']}). Initial weights, "
        "batches and formulas are the same; the learning rate follows the clock, so that the two curves differ.\n"
    )


def reached(entry: Entry, goal: float) -> float | None:
    """Minutes until the first validation at or below the goal."""
    line = entry["curve"]
    return next((m for m, v in zip(line["minutes"], line["chamfer"]) if v <= goal), None)
