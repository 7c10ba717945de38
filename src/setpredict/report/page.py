"""report.html: everything about a run, or about several side by side, in one file that needs no network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from setpredict.core.files import write_text
from setpredict.report.figures.by_step import losses_by_step
from setpredict.report.figures.curves import training_curves
from setpredict.report.html import figure, page, paragraph, section, table
from setpredict.report.tables.paper import beside
from setpredict.report.run_sections import best_score, heading_part, read_rows, run_sections
from setpredict.report.tables.text import heading, shown
from setpredict.runs.loaded import TrainedRun

CURVE_SAMPLES = 64
BEYOND = 3


def write_reports(folders: Sequence[Path], out: Path | None = None, console: Console | None = None) -> list[Path]:
    """A page for each run; for several, a comparison too. Returns the files."""
    console = console or Console(quiet=True)
    runs = [TrainedRun.open(folder) for folder in folders]
    files = [write_report(run) for run in runs]
    if len(runs) > 1:
        path = out or runs[0].folder.parent / "comparison.html"
        write_text(path, comparison(runs))
        files.append(path)
    for file in files:
        console.print(f"Written: {file}", soft_wrap=True)
    return files


def write_report(run: TrainedRun) -> Path:
    path = run.folder / "report.html"
    write_text(path, page(f"{run.folder.name}: a setpredict run", [heading_part(run), *run_sections(run)]))
    return path


def report_after_training(folder: Path, console: Console) -> None:
    """The page at the end of a training; whatever goes wrong with it, the run stays."""
    try:
        path = write_report(TrainedRun.open(folder))
    except Exception as e:
        console.print(f"[yellow]No report: {e}. The run is whole; try: setpredict report {folder}[/]", soft_wrap=True)
    else:
        console.print(f"Report: [bold]{path}[/]", soft_wrap=True)


def comparison(runs: Sequence[TrainedRun]) -> str:
    """Several runs side by side: scores, curves, losses by step, and where their settings differ."""
    from setpredict.training.log import read_log

    names = _distinct([run.folder for run in runs])
    tasks = {run.task.name for run in runs}
    parts = [
        f"<h1>{len(runs)} runs compared</h1>",
        paragraph("Data: " + ", ".join(sorted(tasks)) + "." + (" They differ, so do not compare scores across them."
                  if len(tasks) > 1 else "")),
        section("Scores", score_table(runs, names)),
    ]  # fmt: skip
    drawn = training_curves({name: read_log(run.folder / "log.csv") for name, run in zip(names, runs)})
    parts.append(section("Curves", figure(drawn, "Training loss and validation metrics against the step.")
                 if drawn else ""))  # fmt: skip
    if len(tasks) == 1:
        seen = {}
        for name, run in zip(names, runs):
            count = min(CURVE_SAMPLES, len(run.task.test))
            seen[name] = (run.watch(range(count), "test", BEYOND * run.steps if run.steps else None), run.steps)
        words = f"Losses against the inner step, up to {BEYOND} times the trained steps: medians, middle 80 %."
        parts.append(section("Step by step", figure(losses_by_step(seen), words)))
    parts.append(section("Settings that differ", difference_table(runs, names)))
    return page("Runs compared", parts)


def score_table(runs: Sequence[TrainedRun], names: Sequence[str]) -> str:
    """A row a run and number of steps; the paper's rows below where the data is the paper's."""
    rows = {name: read_rows(run) for name, run in zip(names, runs)}
    metrics = list(dict.fromkeys(m for each in rows.values() for r in each for m in r["metrics"]))
    heads = ["run", "method", "steps", *map(heading, metrics), "ms/sample"]
    cells = []
    for name, run in zip(names, runs):
        for r in rows[name]:
            values = [shown(m, r["metrics"][m]) if m in r["metrics"] else "" for m in metrics]
            steps = "–" if r["steps"] is None else str(r["steps"])
            cells.append([name, run.method, steps, *values, f"{r['milliseconds']:.2f}"])
    for label, numbers in beside(runs[0].experiment.data).items():
        cells.append([f"paper: {label}", "", "", *(f"{numbers[m][0]:g}" if m in numbers else "" for m in metrics), ""])
    return table(heads, cells, first_left=2) if cells else paragraph("None of these runs has been evaluated.")


def difference_table(runs: Sequence[TrainedRun], names: Sequence[str]) -> str:
    """The settings that are not the same in all runs."""
    flat = [flatten(json.loads((run.folder / "config.json").read_text(encoding="utf-8"))) for run in runs]
    keys = [k for k in dict.fromkeys(k for each in flat for k in each) if len({each.get(k) for each in flat}) > 1]
    rows = [[key, *(each.get(key, "") for each in flat)] for key in keys]
    extra = [["best validation score", *(best_score(run) for run in runs)]]
    return table(["setting", *names], [*rows, *extra], first_left=len(runs) + 1)


def flatten(values: dict[str, Any], before: str = "") -> dict[str, str]:
    """Nested settings as `decoder.steps`: text.

    >>> flatten({"a": {"b": 1}, "c": [2, 3]})
    {'a.b': '1', 'c': '2 3'}
    """
    result = {}
    for key, value in values.items():
        if isinstance(value, dict):
            result |= flatten(value, f"{before}{key}.")
        else:
            result[before + key] = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return result


def _distinct(folders: Sequence[Path]) -> list[str]:
    """Short names that differ: the folder's own, or with its parent where two are alike."""
    names = [f.name for f in folders]
    return [n if names.count(n) == 1 else f"{f.parent.name}/{n} ({i})" for i, (f, n) in enumerate(zip(folders, names))]
