"""Tables for the terminal and in Markdown, from the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean, stdev

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table

from setpredict.metrics.units import shown


def terminal(heads: Sequence[str], cells: Sequence[Sequence[str]], title: str = "", width: int | None = None) -> Group:
    """A table for a console of the given width.

    Where it is too narrow, heads are wrapped between words, and columns that still do not fit continue below, next to
    a copy of the first column. Nothing is cut off, and brackets are no markup.
    """
    columns = [[head, *(row[i] for row in cells)] for i, head in enumerate(heads)]
    narrow = [max(map(len, [*head.split(), *texts])) for head, *texts in columns]
    full = [max(map(len, texts)) for texts in columns]
    width = width or Console().width
    blocks: list[list[int]] = [[0]]
    for i in range(1, len(heads)):
        if len(blocks[-1]) > 1 and _total_width(narrow, [*blocks[-1], i]) > width:
            blocks.append([0])
        blocks[-1].append(i)
    tables = []
    for number, block in enumerate(blocks):
        name = escape(title) if title and number == 0 else None
        table = Table(title=name, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        widths = full if _total_width(full, block) <= width else narrow
        for i in block:
            table.add_column(escape(heads[i]), justify="right" if i else "left", width=widths[i], overflow="fold")
        for row in cells:
            table.add_row(*(escape(row[i]) for i in block))
        tables.append(table)
    return Group(*tables)


def _total_width(widths: Sequence[int], block: Sequence[int]) -> int:
    """The width of a table of these columns in characters, with the space between them."""
    return 1 + sum(widths[i] + 2 for i in block)


def markdown(heads: Sequence[str], cells: Sequence[Sequence[str]], text_columns: int = 1) -> str:
    """A Markdown table; the first `text_columns` columns are aligned left, the others, numbers, right.

    >>> print(markdown(["a", "b"], [["x|y", "1"]]), end="")
    | a | b |
    | --- | ---: |
    | x\\|y | 1 |
    """
    rule = ["---" if i < text_columns else "---:" for i in range(len(heads))]
    rows = [heads, rule, *([cell.replace("|", "\\|") for cell in row] for row in cells)]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def summary(values: Sequence[float], name: str = "") -> str:
    """Mean ± standard deviation over runs, or the value of a single run."""
    return mean_and_deviation(values, partial(shown, name)) if values else "–"


def mean_and_deviation(values: Sequence[float], form: Callable[[float], str]) -> str:
    """Mean ± standard deviation of a sample as text; of a single value, the value.

    >>> mean_and_deviation([1.0, 2.0, 3.0], "{:.1f}".format)
    '2.0 ± 1.0'
    """
    return form(fmean(values)) + (f" ± {form(stdev(values))}" if len(values) > 1 else "")


def published(number: tuple[float, float | None] | None) -> str:
    """A number of a paper as mean ± standard deviation; empty if there is none."""
    if number is None:
        return ""
    mean, spread = number
    return f"{mean:g}" if spread is None else f"{mean:g} ± {spread:g}"
