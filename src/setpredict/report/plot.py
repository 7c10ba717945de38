"""The paper's figures for any trained model: sets step by step, objects as text, and losses by step."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from rich.console import Console

from setpredict.config.inner import check_has_steps
from setpredict.core.errors import UserError
from setpredict.core.files import write_text
from setpredict.report.figures.by_step import losses_by_step
from setpredict.report.figures.drawing import shown_as_text, some_steps
from setpredict.report.figures.pictures import picture
from setpredict.report.figures.save import save
from setpredict.report.tables.objects import html_table, latex_table, object_blocks, terminal_table
from setpredict.report.watched import MAX_STEPS, Watched, first_samples, watch, watch_beyond
from setpredict.runs.evaluate import open_data
from setpredict.runs.loaded import LoadedRun, load
from setpredict.sets import Sets


def plot_run(
    name: str | Path,
    samples: Sequence[int] | None = None,
    steps: Sequence[int] = (),
    baseline: str | Path | None = None,
    split: str = "test",
    out: Path | None = None,
    console: Console | None = None,
    allow_own_code: bool = False,
    data: str | Path | None = None,
) -> list[Path]:
    """Draw a model's samples step by step and its losses by step, as PNG and PDF; returns the files.

    Args:
        name: The folder of a run, or the name of a shipped model.
        samples: Indices of the samples in the split (None: the first four).
        steps: The inner steps to draw (none: a few from 0 to T).
        baseline: Another run or shipped model on the same data, drawn beside it.
        split: train, val, test or all.
        out: The folder of the figures (None: `plots` in the run's folder; for a shipped model, plots/NAME).
        console: Where the files and the tables of objects are printed (None: nowhere).
        allow_own_code: Import encoders and decoders of somebody's own, as `load` does.
        data: The path of other data than the run's.
    """
    console = console or Console(quiet=True)
    run, other = load_models(name, baseline, data, allow_own_code)
    shown = _steps_to_draw(run, steps)
    out = out or (run.folder.plots_path if run.folder else Path("plots") / run.name)
    samples = first_samples(run, split) if samples is None else samples
    watched = watch(run, samples, split, max(shown) if run.steps else None)
    beside: dict[str, Sets] = {}
    if other is not None:
        beside[other.method] = other.model.predict(watched.batch.input)
    titles = [f"{split} {i}" for i in samples]
    figure = picture(run.task, watched.batch, watched.prediction, shown, range(len(samples)), beside, titles)
    files = [save(figure, out / f"progression.{ending}") for ending in ("png", "pdf")]
    figure = losses_by_step(_watch_beyond(run, other, split))
    files += [save(figure, out / f"losses.{ending}") for ending in ("png", "pdf")]
    if shown_as_text(run.task):
        captions = [f"{run.task.name}, {split} sample {i}" for i in samples]
        files += _write_objects(run, watched, captions, shown, out, console)
    for file in files:
        console.print(f"Written: {file}", soft_wrap=True, markup=False)
    return files


def load_models(
    name: str | Path, baseline: str | Path | None, data: str | Path | None, allow_own_code: bool
) -> tuple[LoadedRun, LoadedRun | None]:
    """A model and the one beside it, if there is one, both with the same data."""
    run = load(name, allow_own_code=allow_own_code)
    other = None if baseline is None else _load_baseline(baseline, run, allow_own_code)
    for one in (run, other) if data is not None else ():
        if one is not None:
            one.data = open_data(one, data)
    return run, other


def check_drawable_steps(steps: Sequence[int]) -> None:
    """Raise a UserError for numbers of steps that no figure shows."""
    if any(not 0 <= t <= MAX_STEPS for t in steps):
        raise UserError(f"--steps must be from 0 to {MAX_STEPS}, got {' '.join(map(str, steps))}")


def name_beside(run: LoadedRun, other: LoadedRun) -> str:
    """The method of the other model, with its name if both have the same method."""
    return other.method if other.method != run.method else f"{other.method} ({other.name})"


def _steps_to_draw(run: LoadedRun, steps: Sequence[int]) -> list[int]:
    check_drawable_steps(steps)
    check_has_steps(run.steps, steps, run.name)
    if not run.steps:
        return [0]  # a one-shot decoder has one prediction
    if steps:
        return sorted(set(steps))
    return some_steps(run.steps, 3 if shown_as_text(run.task) else 6)


def _load_baseline(name: str | Path, run: LoadedRun, allow_own_code: bool) -> LoadedRun:
    other = load(name, allow_own_code=allow_own_code)
    ours, theirs = (
        f"{t.name} (up to {t.max_size} {t.kind} with {t.features} features)" for t in (run.task, other.task)
    )
    if ours != theirs:
        raise UserError(f"--baseline {name} was trained on {theirs}, but {run.name} on {ours}")
    return other


def _watch_beyond(run: LoadedRun, other: LoadedRun | None, split: str) -> dict[str, tuple[Watched, int]]:
    """The samples and trained steps of both models by method, with the model's name where both have the same method."""
    models = {run.method: (watch_beyond(run, split), run.steps)}
    if other is not None:
        models[name_beside(run, other)] = (watch_beyond(other, split), other.steps)
    return models


def _write_objects(
    run: LoadedRun, watched: Watched, captions: Sequence[str], steps: Sequence[int], out: Path, console: Console
) -> list[Path]:
    """Tables of the objects of each sample: printed, and written as HTML and LaTeX."""
    pages, latex = [], []
    for sample, caption in enumerate(captions):
        blocks = object_blocks(run.task, watched, sample, steps)
        console.print(terminal_table(run.task, blocks, caption))
        pages.append(f"<h2>{escape(caption)}</h2>{html_table(run.task, blocks)}")
        latex.append(latex_table(run.task, blocks, caption))
    title = escape(run.task.name)
    page = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}</title><body>"
    write_text(out / "objects.html", page + "\n".join(pages) + "</body></html>\n")
    write_text(out / "objects.tex", "\n".join(latex))
    return [out / "objects.html", out / "objects.tex"]
