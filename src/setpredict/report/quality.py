"""Is it any good? A verdict on an evaluation in one sentence, and the tables behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from setpredict.data.task import SetTask
from setpredict.metrics.baselines import CONSTANT, MEAN, RANDOM
from setpredict.metrics.matched import ElementErrors
from setpredict.metrics.units import heading, shown
from setpredict.report.html import paragraph, table
from setpredict.report.tables.text import terminal
from setpredict.training.evaluation import Evaluation
from setpredict.training.scores import Scores

BETTER = 1.1
"""A model that is less than this factor better than a trivial prediction is no better."""
SAID = {CONSTANT: "the best constant set", MEAN: "the mean of the training sets", RANDOM: "a random training set"}
SHORT = {CONSTANT: "constant", MEAN: "mean", RANDOM: "random"}
MANY_CATEGORIES = 40
"""Reports have no complete confusion matrices of more."""
CONFUSED = 3
"""Confusions that are listed per group of categories."""
ADVICE = "train longer, or see docs/evaluation.md"


@dataclass(frozen=True)
class TextTable:
    """A table as text: the first column is left-aligned, the others are numbers."""

    title: str
    heads: list[str]
    cells: list[list[str]]
    note: str = ""


def verdict(row: Evaluation) -> str:
    """One sentence that compares the model with the best of the trivial predictions; empty without them.

    >>> scores = {CONSTANT: Scores({"chamfer": 0.4}, (0.4, 0.4)), RANDOM: Scores({"chamfer": 0.8}, (0.8, 0.8))}
    >>> verdict(Evaluation("test", None, 10, {"chamfer": 0.1}, score=(0.1, 0.1), baselines=scores))
    'Beats the best constant set by 4.0× (chamfer ×1000: 100.000 against 400.000).'
    """
    if not row.baselines:
        return ""
    precise = any(name.startswith("AP") and value == value for name, value in row.metrics.items())
    name = min(row.baselines, key=lambda n: row.baselines[n].score[0])
    ours, theirs = row.score[0], row.baselines[name].score[0]
    metric = "mean AP" if precise else next(iter(row.metrics))
    unit = "AP" if precise else metric  # how the numbers are shown
    ours, theirs = (-ours, -theirs) if precise else (ours, theirs)
    numbers = f"{metric} %" if precise else heading(metric)
    numbers = f"{numbers}: {shown(unit, ours)} against {shown(unit, theirs)}"
    factor = ratio(ours, theirs) if precise else ratio(theirs, ours)
    if factor < BETTER:
        return f"No better than {SAID.get(name, name)} ({numbers}): {ADVICE}."
    times = f"by {factor:.1f}×" if factor < 1000 else "by more than 1000×"
    return f"Beats {SAID.get(name, name)} {times} ({numbers})."


def warning(rows: Sequence[Evaluation]) -> str:
    """One sentence if an inner loop amplifies rounding errors; empty otherwise."""
    found = [row for row in rows if row.sensitivity is not None and row.sensitivity.is_chaotic]
    if not found:
        return ""
    at = f" with {found[0].steps} steps" if len(rows) > 1 else ""
    return (
        f"{found[0].sensitivity}{at}: the inner loop has not converged there, and other hardware may round to other "
        "sets. Train longer, or lower step_size or momentum."
    )


def ratio(better: float, worse: float) -> float:
    """better / worse for numbers of which more is better; 0 / 0 is 1.

    >>> ratio(0.5, 0.25), ratio(1.0, 0.0), ratio(0.0, 0.0)
    (2.0, inf, 1.0)
    """
    if worse <= 0:
        return float("inf") if better > 0 else 1.0
    return better / worse


def selection(row: Evaluation) -> str:
    """Which score selects the best model of a training, in one sentence."""
    return f"The best model of a training is the one with the best score on the val split, by {row.selected_by}."


def tables(rows: Sequence[Evaluation], task: SetTask) -> list[TextTable]:
    """The scores beside trivial predictions, errors of matched elements, categories, and AP by class."""
    found = [score_table(rows)]
    first = rows[0]
    if first.elements is not None:
        found.append(error_table(first, task))
        if len(rows) > 1:
            found[-1] = replace(found[-1], title=f"{found[-1].title}, after {first.steps} steps")
        found += [t for group in task.groups if (t := confusion_table(first.elements, task, group))]
    if first.coco is not None:
        found.append(class_table(first))
    return found


def score_table(rows: Sequence[Evaluation]) -> TextTable:
    """One row per number of inner steps, as in the paper, then the trivial predictions."""
    names = list(rows[0].metrics)
    cells = [
        ["model" if r.steps is None else f"model, {r.steps} steps", *(shown(n, r.metrics[n]) for n in names)]
        for r in rows
    ]
    for name, other in rows[0].baselines.items():
        cells.append([name, *(shown(n, other.metrics[n]) if n in other.metrics else "" for n in names)])
    return TextTable("", ["", *map(heading, names)], cells)


def error_table(row: Evaluation, task: SetTask) -> TextTable:
    """The errors of matched elements, in the data's own units, and how often categories are right."""
    assert row.elements is not None
    others: dict[str, Scores] = row.baselines
    columns = [row.elements, *(o.elements for o in others.values())]
    cells = []
    for name in row.elements.errors:
        cells.append([name, *(_number(c.errors[name]) if c else "" for c in columns)])
    for name in row.elements.accuracy:
        cells.append([f"{name} right, %", *(_percent(c.accuracy[name]) if c else "" for c in columns)])
    for name in ("missed", "surplus"):
        cells.append([f"{name} elements, %", *(_percent(_share(c, name)) if c else "" for c in columns)])
    unit = " (boxes: % of the image's sides)" if task.kind == "boxes" and task.scale is None else ""
    note = (
        "Predicted elements with a mask above one half are matched one to one with the true ones; "
        "missed and surplus are relative to the number of true elements."
    )
    heads = ["mean error", "model", *(SHORT.get(name, name) for name in others)]
    return TextTable(f"Errors of matched elements, in the data's own units{unit}", heads, cells, note)


def confusion_table(errors: ElementErrors, task: SetTask, group: str) -> TextTable | None:
    """The most frequent confusions of a group of categories; None if there are none."""
    counts, names = errors.confusions[group], task.categories[group]
    wrong = sorted(((n, i, j) for i, j, n in counts if i != j), key=lambda entry: (-entry[0], entry[1:]))
    if not wrong:
        return None
    total = Counter[int]()
    for true, _, n in counts:
        total[true] += n
    cells = [[names[i], names[j], str(n), _percent(n / total[i])] for n, i, j in wrong[:CONFUSED]]
    return TextTable(f"Most frequent confusions: {group}", ["true", "predicted", "elements", "% of true"], cells)


def class_table(row: Evaluation) -> TextTable:
    """AP of each class, and their mean, which is COCO's, beside the AP of all classes ranked together."""
    assert row.coco is not None
    cells = [[name, _percent(ap), _percent(ap50)] for name, (ap, ap50) in row.coco.classes.items()]
    if len(cells) > 1 or not cells:
        cells.append(["class mean", _percent(row.coco.ap), _percent(row.coco.ap50)])
    if "AP50" in row.metrics:
        cells.append(["pooled", "", _percent(row.metrics["AP50"])])
    note = (
        f"COCO's AP is the class mean of AP50:95, {_percent(row.coco.ap)}%; its AP75 is {_percent(row.coco.ap75)}%. "
        "Pooled: the detections of all classes ranked together, as in the table above."
    )
    return TextTable(
        "Average precision by class, as pycocotools computes it", ["class", "AP50:95 %", "AP50 %"], cells, note
    )


def _share(errors: ElementErrors, name: str) -> float:
    true = errors.matched + errors.missed
    return getattr(errors, name) / true if true else float("nan")


def _number(value: float) -> str:
    return "–" if value != value else f"{value:.3g}"


def _percent(value: float) -> str:
    return "–" if value != value else f"{100 * value:.1f}"


def print_tables(rows: Sequence[Evaluation], task: SetTask, title: str, console: Console) -> None:
    """Print the tables, and which score selects models."""
    times = ", ".join(f"{row.milliseconds:.2f}" for row in rows)
    for number, found in enumerate(tables(rows, task)):
        name = found.title if number else f"{title}: {rows[0].samples:,} samples, {times} ms per sample"
        console.print(name, style="italic", highlight=False, markup=False)
        console.print(terminal(found.heads, found.cells, "", console.width))
        if found.note:
            console.print(found.note, style="dim", highlight=False)
            console.print()
    if rows[0].selected_by:
        console.print(selection(rows[0]), style="dim", highlight=False)
    if warned := warning(rows):
        console.print(warned, style="yellow", highlight=False)


def html_tables(rows: Sequence[Evaluation], task: SetTask) -> str:
    """The tables behind a verdict as HTML, without the scores themselves, and complete confusion matrices.

    Matrices of very many categories would be longer than all the rest; their most frequent confusions are enough.
    """
    parts = []
    large = [group for group, names in task.categories.items() if len(names) > MANY_CATEGORIES]
    for found in tables(rows, task)[1:]:
        if large or not found.title.startswith("Most frequent"):
            note = paragraph(found.note) if found.note else ""
            parts.append(table(found.heads, found.cells, found.title) + note)
    errors = rows[0].elements
    for group in [g for g in task.groups if g not in large] if errors is not None else ():
        names, counts = task.categories[group], errors.confusions[group] if errors else []
        cells = [[name, *[""] * len(names)] for name in names]
        for true, predicted, n in counts:
            cells[true][1 + predicted] = str(n)
        parts.append(table(["true \\ predicted", *names], cells, f"{group} of matched elements"))
    return "\n".join(parts)
