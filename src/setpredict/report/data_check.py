"""A summary of a data set before training on it: counts, set sizes, ranges, and a sheet of examples."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from setpredict.build import augment
from setpredict.config import DataConfig
from setpredict.data.locate import open_path
from setpredict.data.plain import target_sets
from setpredict.data.task import SPLITS, SetTask
from setpredict.report.data_findings import findings
from setpredict.report.figures.contact_sheet import contact_sheet
from setpredict.report.image_advice import image_advice

BINS = 16
"""The largest number of rows in the histogram of set sizes."""
CATEGORIES = 50
"""Of more categories, the most frequent ones are listed."""
BAR_WIDTH = 24
"""The length of the histogram's longest bar in characters."""


@dataclass(frozen=True)
class Summary:
    """What `check` finds in a data set."""

    what: str
    """The task in one line."""
    counts: dict[str, int]
    """Per split: the number of sets."""
    sizes: dict[str, dict[int, int]]
    """Per split: the number of sets of each size."""
    ranges: dict[str, tuple[float, float]]
    """Smallest and largest value of each numeric feature in the training sets, in the user's units."""
    categories: dict[str, dict[str, int]]
    """Per group: the number of elements of each category in the training sets."""
    sheet: Path
    """A PNG of examples."""
    advice: Sequence[str] = ()
    """What is noteworthy, and which options fit."""
    replaced: bool = False
    """Whether the PNG replaced an older one."""


def check(
    path: str | os.PathLike,
    *,
    out: str | os.PathLike = "data-check.png",
    console: Console | None = None,
    allow_outside: bool = False,
    augmented: bool = False,
) -> Summary:
    """Read a complete data set, print a summary, and write a sheet of examples.

    Args:
        path: Anything that `open_path` can open.
        out: The file of the sheet, a PNG.
        console: Where the summary is printed (None: standard output).
        allow_outside: Accept images outside the data set's folder.
        augmented: Draw the examples as training sees them, with augmentation.
    """
    task = open_path(path, allow_outside=allow_outside)
    shown = augment(task, DataConfig().augment, seed=0) if augmented else task
    replaced = Path(out).exists()
    summary = summarize(task, contact_sheet(shown, Path(out)))
    summary = replace(summary, advice=[*findings(task), *image_advice(task)], replaced=replaced)
    print_summary(summary, console)
    return summary


def summarize(task: SetTask, sheet: Path, batch: int = 4096) -> Summary:
    """Count all sets of a task and find the ranges of their features."""
    sizes: dict[str, Counter[int]] = {}
    low = torch.full((task.features,), torch.inf)
    high = -low
    counts = torch.zeros(task.features, dtype=torch.int64)
    for name in SPLITS:
        split = task.split(name)
        sizes[name] = Counter()
        for begin in range(0, len(split), batch):
            indices = np.arange(begin, min(begin + batch, len(split)))
            sets = target_sets(split, indices)
            sizes[name].update(sets.sizes.tolist())
            elements = sets.elements[sets.mask]
            if name == "train" and len(elements):
                low = torch.minimum(low, elements.amin(0))
                high = torch.maximum(high, elements.amax(0))
                counts += (elements > 0.5).sum(0)
    low, high = (task.denormalize(values.double()).tolist() for values in (low, high))
    return Summary(
        what=repr(task),
        counts={name: len(task.split(name)) for name in sizes},
        sizes={name: dict(sorted(c.items())) for name, c in sizes.items()},
        ranges={task.feature_names[i]: (low[i], high[i]) for i in task.numbers if low[i] <= high[i]},
        categories={
            group: dict(zip(task.categories[group], counts[first:end].tolist()))
            for group, (first, end) in task.groups.items()
        },
        sheet=sheet,
    )


def print_summary(summary: Summary, console: Console | None = None) -> None:
    """Print the summary as tables."""
    console = console or Console()
    console.print(summary.what, highlight=False, markup=False)
    table = Table("set size", *summary.counts, "training sets", title="Sets")
    rows = size_bins(summary.sizes)
    most = max((row[1][0] for row in rows), default=0)
    for label, row in rows:
        table.add_row(label, *(str(n) for n in row), "█" * round(BAR_WIDTH * row[0] / max(most, 1)))
    table.add_section()
    table.add_row("all", *(str(n) for n in summary.counts.values()), "")
    console.print(table)
    if summary.ranges:
        table = Table("feature", "smallest", "largest", title="Numbers in the training sets")
        for name, (low, high) in summary.ranges.items():
            table.add_row(escape(name), *_told_apart(low, high))
        console.print(table)
    for group, counts in summary.categories.items():
        table = Table(escape(group), "elements")
        listed = counts if len(counts) <= CATEGORIES else dict(Counter(counts).most_common(CATEGORIES))
        for name, count in listed.items():
            table.add_row(escape(name), str(count))
        if len(listed) < len(counts):
            table.add_row(f"{len(counts) - len(listed):,} others", str(sum(counts.values()) - sum(listed.values())))
        console.print(table)
    for line in summary.advice:
        console.print(line, highlight=False, markup=False)
    note = " (replaced the one that was there)" if summary.replaced else ""
    console.print(f"Examples: {summary.sheet}{note}", highlight=False, markup=False, soft_wrap=True)


def _told_apart(low: float, high: float) -> tuple[str, str]:
    """Two numbers with four digits, or as many as tell them apart."""
    texts = [(f"{low:.{digits}g}", f"{high:.{digits}g}") for digits in (4, 7, 11, 15)]
    return next((pair for pair in texts if pair[0] != pair[1]), texts[0])


def size_bins(sizes: dict[str, dict[int, int]]) -> list[tuple[str, list[int]]]:
    """The rows of the histogram: a label (a size or a range of sizes), and one count per split.

    >>> size_bins({"train": {1: 5, 3: 2}, "val": {2: 1}})
    [('1', [5, 0]), ('2', [0, 1]), ('3', [2, 0])]
    """
    seen = [n for counts in sizes.values() for n in counts]
    if not seen:
        return []
    low, high = min(seen), max(seen)
    step = -(-(high - low + 1) // BINS)
    rows = []
    for begin in range(low, high + 1, step):
        end = min(begin + step - 1, high)
        label = str(begin) if begin == end else f"{begin}-{end}"
        rows.append((label, [sum(c for n, c in counts.items() if begin <= n <= end) for counts in sizes.values()]))
    return rows
