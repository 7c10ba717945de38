"""The HTML report of a run, or of several side by side: one file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from setpredict.core.errors import UserError
from setpredict.core.files import write_text
from setpredict.metrics.units import heading, shown
from setpredict.report.figures.by_step import losses_by_step
from setpredict.report.figures.curves import training_curves
from setpredict.report.figures.pictures import picture
from setpredict.report.html import figure, page, paragraph, section, table
from setpredict.report.run_sections import CURVES_CAPTION, best_score, heading_part, run_sections
from setpredict.report.settings import differing_settings
from setpredict.report.tables.paper import beside
from setpredict.report.watched import BEYOND, watch, watch_beyond
from setpredict.runs.loaded import LoadedRun, load

SAMPLES = 4
"""The number of samples that a comparison draws."""


def write_reports(
    names: Sequence[str | Path],
    out: Path | None = None,
    console: Console | None = None,
    allow_own_code: bool = False,
) -> list[Path]:
    """Write one report per run, and for several runs a comparison; returns the files.

    Args:
        names: The runs' folders.
        out: The file of the comparison (None: comparison.html beside the first run).
        console: Where the files are listed (None: nowhere).
        allow_own_code: Import encoders and decoders of somebody's own, as `load` does.
    """
    if out is not None and len(names) < 2:
        raise UserError(f"--out {out} is the file of a comparison; the report of a single run goes to its folder")
    console = console or Console(quiet=True)
    runs = [load(name, allow_own_code=allow_own_code) for name in names]
    folders = [run.own_folder for run in runs]
    files = [write_report(run) for run in runs]
    if len(runs) > 1:
        path = out or folders[0].path.parent / "comparison.html"
        write_text(path, comparison(runs))
        files.append(path)
    for file in files:
        console.print(f"Written: {file}", soft_wrap=True, markup=False)
    return files


def write_report(run: LoadedRun) -> Path:
    """Write the report of one run into its folder."""
    path = run.own_folder.report_path
    write_text(path, page(f"{run.name}: a setpredict run", [heading_part(run), *run_sections(run)]))
    return path


def report_after_training(folder: Path, console: Console) -> None:
    """Write the report at the end of training. An error is printed, not raised: the run itself is complete."""
    try:
        path = write_report(load(folder, allow_own_code=True))  # this process has trained it with that code
    except Exception as e:
        hint = f"The run itself is complete; to try again: setpredict report {folder}"
        console.print(f"[yellow]No report: {escape(f'{e}. {hint}')}[/]", soft_wrap=True)
    else:
        console.print(f"Report: [bold]{escape(str(path))}[/]", soft_wrap=True)


def comparison(runs: Sequence[LoadedRun]) -> str:
    """Several runs side by side: scores, curves, losses by step, samples, and the settings that differ."""
    names = _distinct_names([run.own_folder.path for run in runs])
    tasks = {run.task.name for run in runs}
    warning = " They differ, so do not compare scores across them." if len(tasks) > 1 else ""
    parts = [
        f"<h1>{len(runs)} runs compared</h1>",
        paragraph(f"Data: {', '.join(sorted(tasks))}.{warning}"),
        section("Scores", score_table(runs, names)),
    ]
    curves = training_curves({name: run.own_folder.read_log() for name, run in zip(names, runs)})
    parts.append(section("Curves", figure(curves, CURVES_CAPTION) if curves else ""))
    if len(tasks) == 1:
        drawn = losses_by_step({name: (watch_beyond(run), run.steps) for name, run in zip(names, runs)})
        caption = f"Losses by inner step, up to {BEYOND} times the trained steps: medians, middle 80%."
        parts.append(section("Step by step", figure(drawn, caption)))
    if all(run.experiment.data == runs[0].experiment.data for run in runs):
        parts.append(section("Samples side by side", side_by_side(runs, names)))
    rows = differing_settings([run.experiment for run in runs])
    rows.append(["best validation score", *(best_score(run.own_folder) for run in runs)])
    parts.append(section("Settings that differ", table(["setting", *names], rows, first_left=len(runs) + 1)))
    return page("Runs compared", parts)


def side_by_side(runs: Sequence[LoadedRun], names: Sequence[str]) -> str:
    """The first test samples as each run predicts them, beside the target."""
    samples = range(min(SAMPLES, len(runs[0].data.test)))
    watched = [watch(run, samples) for run in runs]
    predicted = {name: w.prediction.final for name, w in zip(names, watched)}
    titles = [f"test {i}" for i in samples]
    first = watched[0]
    drawn = picture(runs[0].task, first.batch, first.prediction, [], samples, predicted, titles)
    return figure(drawn, f"The first {len(samples)} test samples, as each run predicts them, and the target.")


def score_table(runs: Sequence[LoadedRun], names: Sequence[str]) -> str:
    """One row per run and number of steps, then the paper's rows if the data is the paper's."""
    rows = {name: run.own_folder.read_evaluation() or [] for name, run in zip(names, runs)}
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


def _distinct_names(folders: Sequence[Path]) -> list[str]:
    """Short names that differ: the folder's name, or with its parent where two are the same."""
    names = [f.name for f in folders]
    return [n if names.count(n) == 1 else f"{f.parent.name}/{n} ({i})" for i, (f, n) in enumerate(zip(folders, names))]
