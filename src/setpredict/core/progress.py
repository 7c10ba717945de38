"""Progress bars with the remaining time, for anything that takes longer than a few seconds."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Column

SECONDS = 15.0
"""Between lines where stderr is not a terminal."""


def bar_columns(text: str) -> tuple[ProgressColumn, ...]:
    """The bar, the percentage and the remaining time, then a text with fields of the task, cut where the line ends.

    The first three keep their widths in a narrow terminal; the text has what is left, so use it with `expand=True`.
    """
    rest = TextColumn(text, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"), markup=False)
    return BarColumn(bar_width=20), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("left"), rest


@contextmanager
def progress(what: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr; a line every 15 seconds if that is not a terminal.

    Yields a function that advances the bar by a number of items.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(what, total, done)
        return
    columns = bar_columns("{task.description}: {task.completed:,.0f} of {task.total:,.0f}")
    with Progress(*columns, console=console, transient=True, expand=True) as bar:
        task = bar.add_task(what, total=total, completed=min(done, total))
        yield lambda more: bar.update(task, completed=min(bar.tasks[0].completed + more, total))


def _lines(what: str, total: int, done: int) -> Callable[[int], None]:
    """Advance without a bar: print a line now and then."""
    said = time.monotonic()

    def advance(more: int) -> None:
        nonlocal done, said
        done = min(done + more, total)
        if time.monotonic() - said >= SECONDS:
            said = time.monotonic()
            print(f"{what}: {done} of {total} ({100 * done / max(total, 1):.0f}%)", file=sys.stderr, flush=True)

    return advance


def track(items: Sequence[Any], what: str, every: int = 256) -> Iterator[Any]:
    """Iterate over the items with a bar that is updated every `every` items."""
    with progress(what, len(items)) as advance:
        for i, item in enumerate(items):
            yield item
            if i % every == every - 1:
                advance(every)


def is_first_process() -> bool:
    """Whether this process shows anything: torchrun sets RANK, Fabric's own launcher LOCAL_RANK for those it starts."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0
