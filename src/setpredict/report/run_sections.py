"""The sections of the report of one run."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np
import torch

from setpredict.core.revision import hardware, revision
from setpredict.decoders import diagnose
from setpredict.metrics.units import heading, shown
from setpredict.report import quality
from setpredict.report.figures.by_step import losses_by_step
from setpredict.report.figures.curves import training_curves
from setpredict.report.figures.drawing import shown_as_text, some_steps
from setpredict.report.figures.pictures import picture
from setpredict.report.html import figure, paragraph, section, table
from setpredict.report.settings import settings_tables
from setpredict.report.tables.objects import html_table, object_blocks
from setpredict.report.tables.paper import beside
from setpredict.report.tables.set_sizes import confusion_table
from setpredict.report.tables.text import published
from setpredict.report.watched import BEYOND, Watched, good_median_worst, watch, watch_beyond
from setpredict.runs.folder import RunFolder
from setpredict.runs.loaded import LoadedRun
from setpredict.training.evaluation import Evaluation

REPORT_SAMPLES = 256
"""The number of test samples that are decoded for the report (the evaluation table is over all of them)."""
CURVES_CAPTION = "Training loss and validation metrics by step."


def heading_part(run: LoadedRun) -> str:
    """The title, and one sentence each on the task and on the inner loop."""
    task, size = run.task, run.task.input_size
    inputs = {"set": f"sets with {size} features", "vector": f"vectors of {size}", "image": f"{size}×{size} images"}
    text = (
        f"{run.method} on {task.name}: {inputs[task.input_kind]} → up to {task.max_size} {task.kind} "
        f"with {task.features} features. {verdict(run)}"
    )
    return f"<h1>{escape(run.name)}</h1>\n<p class='soft'>{escape(text)}</p>"


def run_sections(run: LoadedRun) -> Iterator[str]:
    """Evaluation, training curves, samples, losses by step, set sizes, settings, time and hardware."""
    yield section("Evaluation", evaluation_table(run))
    yield section("Is it any good?", *quality_parts(run))
    curves = training_curves({run.name: run.own_folder.read_log()})
    if curves:
        yield section("Training", figure(curves, CURVES_CAPTION))
    count = min(REPORT_SAMPLES, len(run.data.test))
    watched = watch(run, range(count))
    chosen = good_median_worst(watched.ranked(run.steps))
    yield section("Sets taking shape", *progressions(run, watched, chosen))
    if run.steps:
        drawn = losses_by_step({run.method: (watch_beyond(run), run.steps)})
        caption = f"Losses by inner step, up to {BEYOND} times the trained {run.steps}: medians, middle 80%."
        yield section("Beyond the trained steps", figure(drawn, caption))
    if run.task.variable:
        sizes = confusion_table(watched.prediction.final, watched.batch.target)
        yield section("Set sizes", paragraph(f"Of the first {count} test samples."), sizes)
    yield section("Settings", settings_tables(run.experiment))
    yield section("Time and hardware", table(["", ""], [list(pair) for pair in circumstances(run).items()], "", 2))


def evaluation_table(run: LoadedRun) -> str:
    """The scores on the test split, with those of trivial predictions, and the paper's if the data is the paper's."""
    rows = evaluations(run)
    if not rows:
        return paragraph(f"Not evaluated on the test split yet: setpredict evaluate {run.own_folder}")
    names = list(rows[0].metrics)
    paper = beside(run.experiment.data)
    heads = ["", *map(heading, names), "ms/sample", "samples"]
    cells = []
    for r in rows:
        label = run.method if r.steps is None else f"{run.method}, {r.steps} steps"
        cells.append([f"this run: {label}", *(shown(n, r.metrics[n]) for n in names), f"{r.milliseconds:.2f}",
                      str(r.samples)])  # fmt: skip
    for label, other in rows[0].baselines.items():
        cells.append([label, *(shown(n, other.metrics[n]) if n in other.metrics else "" for n in names), "", ""])
    for label, numbers in paper.items():
        cells.append([f"paper: {label}", *(published(numbers.get(n)) for n in names), "", ""])
    note = "The paper's numbers are means over six runs at its own scale." if paper else ""
    return table(heads, cells) + (paragraph(note) if note else "")


def quality_parts(run: LoadedRun) -> Iterator[str]:
    """The verdict, how models are selected, and the errors of single elements and classes."""
    rows = evaluations(run)
    if rows and rows[0].baselines:
        yield f"<p><strong>{escape(quality.verdict(rows[0]))}</strong></p>"
        yield paragraph(quality.selection(rows[0]))
    if warned := quality.warning(rows):
        yield paragraph(warned)
    if rows and rows[0].elements is not None:
        yield quality.html_tables(rows, run.task)


def evaluations(run: LoadedRun) -> list[Evaluation]:
    """The rows of the last evaluation on the test split."""
    return [Evaluation.from_dict(row) for row in run.own_folder.read_evaluation() or []]


def progressions(run: LoadedRun, watched: Watched, chosen: dict[str, int]) -> Iterator[str]:
    """The chosen samples step by step, by name; objects as text too."""
    as_text = shown_as_text(run.task)
    steps = some_steps(watched.prediction.steps, 3 if as_text else 6)
    titles = [f"{name} ({sample})" for name, sample in chosen.items()]
    samples = list(chosen.values())
    drawn = picture(run.task, watched.batch, watched.prediction, steps, samples, titles=titles)
    loss = watched.set_loss[-1]
    values = ", ".join(f"{name} {float(loss[i]):.2e}" for name, i in chosen.items())
    yield figure(drawn, f"A good, the median and the worst of {len(loss)} test samples by set loss: {values}.")
    if as_text:
        for name, sample in chosen.items():
            blocks = object_blocks(run.task, watched, sample, steps)
            yield (
                f"<details><summary>The {name} sample as text</summary><div class='wide'>"
                f"{html_table(run.task, blocks)}</div></details>"
            )


def circumstances(run: LoadedRun) -> dict[str, str]:
    """Training time, hardware and code; for runs that did not record the last two, those of the report."""
    folder = run.own_folder
    summary, origin = folder.read_summary(), folder.read_origin()
    facts = {
        "parameters": f"{run.model.parameter_count:,}",
        "steps trained": f"{summary['step']:,}" if summary else "not finished",
        "training time": f"{summary['seconds'] / 60:.1f} minutes" if summary else "not finished",
        "ended by": summary.get("ended_by", "") if summary else "",
        "best validation score": best_score(folder),
    }
    facts = {name: text for name, text in facts.items() if text}
    if origin:
        facts |= {"machine": origin["hardware"], "code": origin["revision"]}
    else:
        facts |= {"report written on": hardware(), "report written by code": revision()}
    speeds = [float(row["samples_per_s"]) for row in folder.read_log() if "samples_per_s" in row]
    return facts | ({"training speed": f"{np.median(speeds):,.0f} samples/s"} if speeds else {})


def best_score(folder: RunFolder) -> str:
    """The validation metrics of the best weights, and their step."""
    seen = folder.read_validation()
    if not seen:
        return "none"
    scores = ", ".join(f"{heading(k)} {shown(k, v)}" for k, v in seen["metrics"].items())
    by = seen.get("selected_by")
    chosen = f"; selected by {by}" if by else ""
    return f"{scores} (step {seen['step']:,}{chosen})"


def verdict(run: LoadedRun) -> str:
    """One sentence on what the inner loop does."""
    if not run.steps:
        return "A one-shot decoder: one prediction, no steps."
    batch = run.data.val.batch(np.arange(min(32, len(run.data.val))), 0)
    with torch.no_grad():
        prediction = run.model(batch.input)
    if prediction.repr_loss is None or prediction.grad_norm is None:  # a decoder of the user's own
        return f"{run.steps} inner steps."
    return f"{run.steps} inner steps. {diagnose(prediction).verdict}"
