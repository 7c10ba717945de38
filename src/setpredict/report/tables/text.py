"""Tables a person can read: in the terminal and in Markdown, from the same rows."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table

from setpredict.training.evaluation import Evaluation


def percent(name: str) -> bool:
    return name.startswith("AP") or name == "size_accuracy"


def shown(name: str, value: float) -> str:
    """A metric as tables have it: AP and accuracies in percent, distances in thousandths."""
    if value != value:
        return "–"
    if percent(name):
        return f"{100 * value:.1f}"
    return f"{1000 * value:.3f}" if name in ("chamfer", "hungarian") else f"{value:.3g}"


def heading(name: str) -> str:
    """A metric's name with the unit of `shown`."""
    unit = " %" if percent(name) else " ×1000" if name in ("chamfer", "hungarian") else ""
    return name.replace("_", " ") + unit


def evaluation_rows(rows: Sequence[Evaluation]) -> tuple[list[str], list[list[str]]]:
    """Heads and cells: each number of inner steps a row, as in the paper."""
    names = list(rows[0].metrics) if rows else []
    heads = ["steps", *map(heading, names), "ms/sample", "samples"]
    cells = [
        [
            "–" if r.steps is None else str(r.steps),
            *(shown(n, r.metrics[n]) for n in names),
            f"{r.milliseconds:.2f}",
            str(r.samples),
        ]
        for r in rows
    ]
    return heads, cells


def terminal(heads: Sequence[str], cells: Sequence[Sequence[str]], title: str = "", width: int | None = None) -> Group:
    """A table for a console of that width. Where it is too narrow, heads are folded between their words, and columns
    that still find no place go on below, beside the first column again: nothing is cut."""
    columns = [[head, *(row[i] for row in cells)] for i, head in enumerate(heads)]
    folded = [max(map(len, [*head.split(), *texts])) for head, *texts in columns]
    whole = [max(map(len, texts)) for texts in columns]
    width = width or Console().width
    blocks: list[list[int]] = [[0]]
    for i in range(1, len(heads)):
        if len(blocks[-1]) > 1 and _across(folded, [*blocks[-1], i]) > width:
            blocks.append([0])
        blocks[-1].append(i)
    tables = []
    for number, block in enumerate(blocks):
        name = title if title and number == 0 else None
        table = Table(title=name, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        widths = whole if _across(whole, block) <= width else folded
        for i in block:
            table.add_column(heads[i], justify="right" if i else "left", width=widths[i], overflow="fold")
        for row in cells:
            table.add_row(*(row[i] for i in block))
        tables.append(table)
    return Group(*tables)


def _across(widths: Sequence[int], block: Sequence[int]) -> int:
    """Characters that these columns take with what is between them."""
    return 1 + sum(widths[i] + 2 for i in block)


def markdown(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " ---: |" * (len(heads) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in cells]) + "\n"


def summary(values: Sequence[float], name: str = "") -> str:
    """Mean ± standard deviation over runs, or the one value."""
    if not values:
        return "–"
    mean = sum(values) / len(values)
    if len(values) == 1:
        return shown(name, mean)
    spread = (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5
    return f"{shown(name, mean)} ± {shown(name, spread)}"


def published(number: tuple[float, float | None] | None) -> str:
    if number is None:
        return ""
    mean, spread = number
    return f"{mean:g}" if spread is None else f"{mean:g} ± {spread:g}"
