"""Progress bars with the remaining time, for anything that takes longer than a few seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)


@contextmanager
def progress(what: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr, if that is a terminal. Yields a function that advances the bar by a number of items."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal, transient=True
    ) as bar:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda more: bar.advance(task, more)


def track(items: Sequence[Any], what: str, every: int = 256) -> Iterator[Any]:
    """Iterate over the items with a bar that is updated every `every` items."""
    with progress(what, len(items)) as advance:
        for i, item in enumerate(items):
            yield item
            if i % every == every - 1:
                advance(every)
