"""Is it any good? The sentence and the tables say what was measured, and fit a terminal of 80 columns."""

import io

import pytest
from rich.console import Console

from setpredict.data.sources.scenes import scenes
from setpredict.metrics.baselines import CONSTANT, MEAN, RANDOM
from setpredict.metrics.matched import ElementErrors
from setpredict.report import quality
from setpredict.report.quality import html_tables, print_tables, verdict
from setpredict.training.evaluation import Evaluation
from setpredict.training.scores import CocoScores, Scores

AP = {"AP50": 0.4, "AP90": 0.2}


def precise(ours: float, **others: float) -> Evaluation:
    names = {"constant": CONSTANT, "mean": MEAN, "random": RANDOM}
    found = {names[k]: Scores(AP, (-v, 0.5)) for k, v in others.items()}
    return Evaluation("test", 10, 40, AP, score=(-ours, 0.1), selected_by="x", baselines=found)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            precise(0.41, constant=0.1, random=0.05),
            "Beats the best constant set by 4.1× (mean AP %: 41.0 against 10.0).",
        ),
        (precise(0.41, constant=0.0), "Beats the best constant set by more than 1000× (mean AP %: 41.0 against 0.0)."),
        (precise(0.002, random=0.012, mean=0.0), "No better than a random training set (mean AP %: 0.2 against 1.2): "),
        (precise(0.105, mean=0.1), "No better than the mean of the training sets (mean AP %: 10.5 against 10.0): "),
        (precise(0.0, mean=0.0), "No better than the mean of the training sets (mean AP %: 0.0 against 0.0): "),
        (precise(0.5), ""),
        (  # all training sets are equal
            Evaluation(
                "test", 10, 40, {"hungarian": 0.01}, score=(0.01, 0.01), baselines={CONSTANT: Scores({}, (0.0, 0.0))}
            ),
            "No better than the best constant set (hungarian ×1000: 10.000 against 0.000): ",
        ),
    ],
)
def test_the_verdict(row: Evaluation, expected: str):
    assert verdict(row).startswith(expected)
    assert bool(verdict(row)) == bool(expected)
    if expected.startswith("No better"):
        assert verdict(row).endswith("train longer, or see docs/evaluation.md.")


def complete(task) -> Evaluation:
    """A row with every table, for objects with many categories and long names."""
    elements = ElementErrors(90, 10, 5, dict.fromkeys(("distance", "x", "y", "z"), 0.123456))
    for name, (first, end) in task.groups.items():
        size = end - first
        elements.confusions[name] = [[i, j, 2] for i in range(size) for j in range(size)]
        elements.accuracy[name] = 1 / size
    metrics = {"hungarian": 0.01, **dict.fromkeys(("AP∞", "AP1", "AP0.5", "AP0.25", "AP0.125", "AP0.0625"), 0.5)}
    metrics |= {"size_accuracy": 0.5, "size_error": 0.5}
    other = Scores(metrics, (-0.1, 0.1), elements)
    coco = CocoScores(0.3, 0.6, 0.25, {"a class with a very long name": (0.2, 0.5), "other": (0.4, 0.7)})
    row = Evaluation("test", 10, 1234, metrics, 1.5, (-0.5, 0.01), "the mean of AP∞ … AP0.0625", elements, coco)
    row.baselines = {CONSTANT: other, MEAN: other, RANDOM: other}
    return row


def test_tables_fit_80_columns_and_say_which_ap_is_cocos():
    task = scenes("state", size=24)
    text = io.StringIO()
    print_tables([complete(task)], task, "runs/some-run-with-a-long-name", Console(file=text, width=80))
    shown = text.getvalue()
    assert max(map(len, shown.splitlines())) <= 80
    flowing = " ".join(shown.split())
    for words in (
        "1,234 samples, 1.50 ms per sample", "best constant set", "material right, %", "missed elements, %",
        "Most frequent confusions: color", "COCO's AP is the class mean of AP50:95, 30.0%; its AP75 is 25.0%",
        "a class with a very long name", "by the mean of AP∞ … AP0.0625",
    ):  # fmt: skip
        assert words in flowing, words


def test_the_report_has_complete_confusion_matrices():
    task = scenes("state", size=24)
    page = html_tables([complete(task)], task)
    for group in task.groups:
        assert f"{group} of matched elements" in page
    assert "Most frequent" not in page
    assert page.count("<td class='number'>2</td>") == sum((b - a) ** 2 for a, b in task.groups.values())


def test_matrices_of_very_many_categories_are_left_out(monkeypatch):
    monkeypatch.setattr(quality, "MANY_CATEGORIES", 3)
    task = scenes("state", size=24)
    page = html_tables([complete(task)], task)
    for group, names in task.categories.items():
        assert (f"{group} of matched elements" in page) == (len(names) <= 3)
    assert "Most frequent confusions: color" in page
