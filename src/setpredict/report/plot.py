"""The paper's figures from any run: sets taking shape, objects in words, and the losses against the step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from setpredict.core.files import write_text
from setpredict.report.figures.by_step import losses_by_step
from setpredict.report.figures.drawing import in_words, some_steps
from setpredict.report.tables.objects import html_table, latex_table, object_blocks, terminal_table
from setpredict.report.figures.pictures import picture
from setpredict.report.figures.progression import save
from setpredict.runs.loaded import TrainedRun
from setpredict.sets import Sets

MOST_STEPS = 1000
BEYOND = 3
"""The losses are drawn up to so many times the trained steps."""
CURVE_SAMPLES = 64


def plot_run(
    folder: Path,
    samples: Sequence[int] = (0, 1, 2, 3),
    steps: Sequence[int] = (),
    baseline: Path | None = None,
    split: str = "test",
    out: Path | None = None,
    console: Console | None = None,
) -> list[Path]:
    """Draw a run's samples step by step and its losses against the step, as PNG and PDF; returns the files."""
    console = console or Console(quiet=True)
    run = TrainedRun.open(folder)
    other = None if baseline is None else _baseline(baseline, run)
    shown = _steps(run, steps)
    out = out or folder / "plots"
    watched = run.watch(samples, split, max(shown) if run.steps else None)
    beside: dict[str, Sets] = {}
    if other is not None:
        beside[other.method] = other.model.predict(watched.batch.input)
    titles = [f"{split} {i}" for i in samples]
    figure = picture(run.task, watched.batch, watched.prediction, shown, range(len(samples)), beside, titles)
    files = [save(figure, out / f"progression.{ending}") for ending in ("png", "pdf")]
    files += _losses(run, other, split, out)
    if in_words(run.task):
        files += _objects(run, watched, samples, shown, split, out, console)
    for file in files:
        console.print(f"Written: {file}", soft_wrap=True)
    return files


def _steps(run: TrainedRun, steps: Sequence[int]) -> list[int]:
    if any(not 0 <= t <= MOST_STEPS for t in steps):
        raise ValueError(f"--steps must be from 0 to {MOST_STEPS}, got {' '.join(map(str, steps))}")
    if not run.steps:
        return [0]  # a one-shot decoder has one answer
    if steps:
        return sorted(set(steps))
    return some_steps(run.steps, 3) if in_words(run.task) else some_steps(run.steps, 6)


def _baseline(folder: Path, run: TrainedRun) -> TrainedRun:
    other = TrainedRun.open(folder)
    ours, theirs = run.task, other.task
    if (ours.name, ours.max_size, ours.features) != (theirs.name, theirs.max_size, theirs.features):
        raise ValueError(f"--baseline {folder} was trained on {theirs!r}, but {run.folder} on {ours!r}")
    return other


def _losses(run: TrainedRun, other: TrainedRun | None, split: str, out: Path) -> list[Path]:
    count = min(CURVE_SAMPLES, len(run.task.split(split)))
    seen = {}
    for each in (run, other):
        if each is not None:
            watched = each.watch(range(count), split, min(BEYOND * each.steps, MOST_STEPS) if each.steps else None)
            name = each.method if each.method not in seen else f"{each.method} ({each.folder.name})"
            seen[name] = (watched, each.steps)
    figure = losses_by_step(seen)
    return [save(figure, out / f"losses.{ending}") for ending in ("png", "pdf")]


def _objects(run, watched, samples, shown, split, out, console) -> list[Path]:
    pages, latex = [], []
    for at, sample in enumerate(samples):
        blocks = object_blocks(run.task, watched, at, shown)
        caption = f"{run.task.name}, {split} sample {sample}"
        console.print(terminal_table(run.task, blocks, caption))
        pages.append(f"<h2>{caption}</h2>{html_table(run.task, blocks)}")
        latex.append(latex_table(run.task, blocks, caption))
    page = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{run.task.name}</title><body>"
    write_text(out / "objects.html", page + "\n".join(pages) + "</body></html>\n")
    write_text(out / "objects.tex", "\n".join(latex))
    return [out / "objects.html", out / "objects.tex"]
