"""The sections of one run's report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from html import escape
from typing import Any

import numpy as np
import torch

from setpredict.config import to_dict
from setpredict.report.figures.by_step import losses_by_step
from setpredict.report.figures.curves import training_curves
from setpredict.report.figures.drawing import in_words, some_steps
from setpredict.report.html import figure, paragraph, section, table
from setpredict.report.tables.objects import html_table, object_blocks
from setpredict.report.tables.paper import beside
from setpredict.report.figures.pictures import picture
from setpredict.report.tables.set_sizes import confusion_table
from setpredict.report.tables.text import heading, published, shown
from setpredict.runs.loaded import TrainedRun, Watched, good_median_worst
from setpredict.core.revision import hardware, revision

LOOKED_AT = 256
"""So many test samples are decoded for the report (the evaluation table is over all of them)."""
BEYOND = 3


def heading_part(run: TrainedRun) -> str:
    task, size = run.task, run.task.input_size
    given = {"set": f"sets with {size} features", "vector": f"vectors of {size}", "image": f"{size}×{size} images"}
    words = (
        f"{run.method} on {task.name}: {given[task.input_kind]} → up to {task.max_size} {task.kind} "
        f"with {task.features} features."
    )
    return f"<h1>{escape(run.folder.name)}</h1>\n<p class='soft'>{escape(words)} {escape(verdict(run))}</p>"


def run_sections(run: TrainedRun) -> Iterator[str]:
    """Evaluation, curves, progressions, losses by step, sizes, settings, time and hardware."""
    from setpredict.training.log import read_log

    yield section("Evaluation", evaluation_table(run))
    drawn = training_curves({run.folder.name: read_log(run.folder / "log.csv")})
    if drawn:
        yield section("Training", figure(drawn, "Training loss and validation metrics against the step."))
    split = "test"
    count = min(LOOKED_AT, len(run.task.split(split)))
    watched = run.watch(range(count), split)
    chosen = good_median_worst(watched.ranked(run.steps))
    yield section("Sets taking shape", *progressions(run, watched, chosen, split))
    if run.steps:
        further = run.watch(range(min(64, count)), split, BEYOND * run.steps)
        words = f"Losses against the inner step, up to {BEYOND} times the trained {run.steps}: medians, middle 80 %."
        yield section("Beyond the trained steps", figure(losses_by_step({run.method: (further, run.steps)}), words))
    if run.task.variable:
        sizes = confusion_table(watched.prediction.final, watched.batch.target)
        yield section("Set sizes", paragraph(f"Of the first {count} {split} samples."), sizes)
    yield section("Settings", settings(run))
    yield section("Time and hardware", table(["", ""], [list(pair) for pair in circumstances(run).items()], "", 2))


def evaluation_table(run: TrainedRun) -> str:
    """What was measured on the test split, with the paper's numbers beside it where the data is the paper's."""
    rows = read_rows(run)
    if not rows:
        return paragraph(f"Not evaluated on the test split yet: setpredict evaluate {run.folder}")
    names = list(rows[0]["metrics"])
    paper = beside(run.experiment.data)
    heads = ["", *map(heading, names), "ms/sample", "samples"]
    cells = []
    for r in rows:
        label = run.method if r["steps"] is None else f"{run.method}, {r['steps']} steps"
        cells.append([f"this run: {label}", *(shown(n, r["metrics"][n]) for n in names), f"{r['milliseconds']:.2f}",
                      str(r["samples"])])  # fmt: skip
    for label, numbers in paper.items():
        cells.append([f"paper: {label}", *(published(numbers.get(n)) for n in names), "", ""])
    note = "The paper's numbers are means over six runs at its own scale." if paper else ""
    return table(heads, cells) + (paragraph(note) if note else "")


def progressions(run: TrainedRun, watched: Watched, chosen: dict[str, int], split: str) -> Iterator[str]:
    """A good, the median and the worst sample, by the set loss of the last step."""
    words = in_words(run.task)
    steps = some_steps(watched.prediction.steps, 3 if words else 6)
    titles = [f"{name} ({sample})" for name, sample in chosen.items()]
    samples = list(chosen.values())
    drawn = picture(run.task, watched.batch, watched.prediction, steps, samples, titles=titles)
    loss = watched.set_loss[-1]
    values = ", ".join(f"{name} {float(loss[i]):.2e}" for name, i in chosen.items())
    yield figure(drawn, f"A good, the median and the worst of {len(loss)} {split} samples by set loss: {values}.")
    if words:
        for name, sample in chosen.items():
            blocks = object_blocks(run.task, watched, sample, steps)
            yield (
                f"<details><summary>The {name} sample in words</summary><div class='wide'>"
                f"{html_table(run.task, blocks)}</div></details>"
            )


def settings(run: TrainedRun) -> str:
    parts = []
    for name, values in to_dict(run.experiment).items():
        rows = values.items() if isinstance(values, dict) else [(name, values)]
        cells = [[k, " ".join(map(str, v)) if isinstance(v, tuple | list) else str(v)] for k, v in rows]
        parts.append(f"<details><summary>{escape(name)}</summary>{table(['setting', 'value'], cells, '', 2)}</details>")
    return "\n".join(parts)


def circumstances(run: TrainedRun) -> dict[str, str]:
    """How long, on what and by which code it was trained; where that is not known, who writes the report."""
    done = _json(run, "done.json") or {}
    origin = _json(run, "origin.json")
    if origin:
        trained = {"machine": origin["hardware"], "code": origin["revision"]}
    else:
        trained = {"report written on": hardware(), "report written by code": revision()}
    facts = {
        "parameters": f"{sum(p.numel() for p in run.model.parameters()):,}",
        "steps trained": f"{done['step']:,}" if "step" in done else "not finished",
        "training time": f"{done['seconds'] / 60:.1f} minutes" if "seconds" in done else "not finished",
        "best validation score": best_score(run),
        **trained,
    }
    speed = _last_speed(run)
    return facts | ({"training speed": f"{speed:,.0f} samples/s"} if speed else {})


def best_score(run: TrainedRun) -> str:
    seen = _json(run, "best/validation.json")
    if not seen:
        return "none"
    return ", ".join(f"{heading(k)} {shown(k, v)}" for k, v in seen["metrics"].items()) + f" (step {seen['step']:,})"


def read_rows(run: TrainedRun, split: str = "test") -> list[dict[str, Any]]:
    return _json(run, f"evaluation-{split}.json") or []


def verdict(run: TrainedRun) -> str:
    """One sentence on what the inner loop does."""
    if not run.steps:
        return "A one-shot decoder: one answer, no steps."
    from setpredict.decoders import diagnose

    batch = run.task.split("val").batch(np.arange(min(32, len(run.task.val))), 0)
    with torch.no_grad():
        return f"{run.steps} inner steps. " + asdict(diagnose(run.model(batch.input)))["verdict"]


def _json(run: TrainedRun, name: str) -> Any:
    path = run.folder / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _last_speed(run: TrainedRun) -> float | None:
    from setpredict.training.log import read_log

    speeds = [float(row["samples_per_s"]) for row in read_log(run.folder / "log.csv") if "samples_per_s" in row]
    return float(np.median(speeds)) if speeds else None
