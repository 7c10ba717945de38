"""Methods side by side: train each on the same data for the same time, and write one page that compares them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from setpredict.config import Experiment
from setpredict.core.errors import UserError
from setpredict.core.files import write_text
from setpredict.core.progress import is_first_process
from setpredict.metrics.units import heading, shown
from setpredict.report.page import comparison
from setpredict.report.tables.text import terminal
from setpredict.reproduce import finish
from setpredict.runs.evaluate import evaluate_run
from setpredict.runs.folder import RunFolder
from setpredict.runs.loaded import LoadedRun, load

PAGE = "comparison.html"


def compare(experiments: Mapping[str, Experiment], folder: Path, console: Console | None = None) -> Path:
    """Train and evaluate every experiment in its own run below `folder`, and write the page; returns its path.

    Finished runs are kept and interrupted ones resumed, so that calling it again continues where it stopped.

    Args:
        experiments: The experiments by name, all with the same data.
        folder: The folder of the runs and of the page.
        console: Where messages, progress bars and the table go (None: nowhere).
    """
    console = console if console and is_first_process() else Console(quiet=True)
    if len(experiments) < 2:
        raise UserError(f"a comparison needs at least two methods, got {' '.join(experiments) or 'none'}")
    data = [experiment.data for experiment in experiments.values()]
    if any(d != data[0] for d in data):
        raise UserError("a comparison needs the same data for all methods")
    for name, experiment in experiments.items():
        run = RunFolder(folder / name)
        console.rule(name)
        if not finish(experiment, run, console):
            raise KeyboardInterrupt(f"Stopped in {run}. The same command continues the comparison.")
        if run.read_evaluation() is None:
            evaluate_run(run.path, console=console, allow_own_code=True)  # it was trained here with that code
    path = folder / PAGE
    if not is_first_process():
        return path
    runs = {name: load(folder / name, allow_own_code=True) for name in experiments}
    console.print(terminal(*score_rows(runs), f"{folder}, test split", console.width))
    write_text(path, comparison(list(runs.values())))
    console.print(f"Written: {path}", soft_wrap=True, markup=False)
    return path


def score_rows(runs: Mapping[str, LoadedRun]) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of a table with one row per run: its scores on the test split, size and training."""
    scores = {name: (run.own_folder.read_evaluation() or [])[:1] for name, run in runs.items()}
    metrics = list(dict.fromkeys(m for rows in scores.values() for row in rows for m in row["metrics"]))
    several = len({run.method for run in runs.values()}) < len(runs)  # of one method: told apart by their names
    heads = ["name"] * several + [
        "method",
        *map(heading, metrics),
        "ms/sample",
        "parameters",
        "steps trained",
        "minutes",
    ]
    cells = []
    for name, run in runs.items():
        summary = run.own_folder.read_summary()
        for row in scores[name]:
            values = [shown(m, row["metrics"][m]) if m in row["metrics"] else "" for m in metrics]
            size = f"{run.model.parameter_count:,}"
            trained = [f"{summary['step']:,}", f"{summary['seconds'] / 60:.1f}"] if summary else ["", ""]
            label = [name] * several + [run.method]
            cells.append([*label, *values, f"{row['milliseconds']:.2f}", size, *trained])
    return heads, cells
