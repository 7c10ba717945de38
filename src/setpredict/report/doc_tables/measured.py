"""Tables of measurements, from the JSON files that commands write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from setpredict.config import Experiment, from_json
from setpredict.core.files import read_json
from setpredict.metrics.units import heading, percent, shown
from setpredict.report.results import timed
from setpredict.report.tables.text import markdown, mean_and_deviation

METHODS = ("MLP", "LSTM", "DSPN", "iDSPN", "Slot Attention", "Transformer")
TASKS = (
    ("points-small.json", "8 random points, through 64 numbers and back", "hungarian", ""),
    ("multisets-small.json", "8 random elements with 8 features, through 256 numbers", "hungarian", "n = 8, d = 8"),
    ("multisets-small.json", "32 random elements with 8 features, through 256 numbers", "hungarian", "n = 32, d = 8"),
    ("numbering-small.json", "number equal elements, from a multiset of classes", "set_accuracy", ""),
    ("mnist-small.json", "MNIST digits, through 64 numbers and back", "chamfer", ""),
    ("clevr-state-small.json", "objects of a scene, from an image", "AP∞", ""),
    ("clevr-box-small.json", "boxes of a scene, from an image", "AP50", ""),
)
"""File of records, task, metric, and what the names of its rows contain."""


def demo_table(path: Path) -> str:
    """The errors of three decoders, from a file of `setpredict demo`."""
    rows = []
    for model in read_json(path)["models"]:
        (T, once), *more = model["error_x1000"].items()  # of a one-shot decoder only one, after 0 steps
        later = f"{more[0][1]:.3f}" if more else "–"
        numbers = [f"{once:.3f}", later, T if more else "–", f"{model['parameters']:,}", f"{model['steps_trained']:,}"]
        rows.append([model["name"], *numbers])
    return markdown(["decoder", "after T steps", "after 2T steps", "T", "parameters", "steps trained"], rows)


def sweep_table(path: Path) -> str:
    """Errors and jumps over one period of the angle, from a file of `setpredict demo --task polygons`.

    Errors are means over the seeds ± their standard deviation; what is said by seed is in the order of the seeds.
    """
    rows = []
    models = read_json(path)["models"]
    for corners in models[0]["sweep"]:
        for model in models:
            seeds = model["sweep"][corners]
            jumps = [jump["distance"] for seen in seeds for jump in seen["largest_jumps"]]
            cells = [
                mean_and_deviation([1000 * seen["median_error"] for seen in seeds], "{:.3f}".format),
                mean_and_deviation([1000 * seen["largest_error"] for seen in seeds], "{:.1f}".format),
                ", ".join(f"{seen['hardest_degrees']:.0f}°" for seen in seeds),
                ", ".join(str(seen["jumps"]) for seen in seeds),
                f"{max(jumps):.2f}" if jumps else "–",
            ]
            rows.append([corners, model["name"], *cells])
    heads = ["corners", "decoder", "median error ×1000", "largest error ×1000", "where it is, by seed"]
    return markdown([*heads, "jumps, by seed", "largest jump"], rows, text_columns=2)


def tutorial_table(path: Path) -> str:
    """A model beside trivial predictions, from the file of `python -m benchmarks.tutorial`."""
    content = read_json(path)
    test = content["test"]
    trained = f"trained for {content['minutes']:.0f} minutes ({content['steps']:,} steps)"
    rows = []
    for name, scores in {f"the model, {trained}": test, **test["baselines"]}.items():
        right = scores["elements"]["accuracy"]["category"]
        values = (scores["coco"]["ap50"], scores["coco"]["ap"], right, scores["metrics"]["size_accuracy"])
        rows.append([name, *("–" if v is None or v != v else f"{100 * v:.1f}" for v in values)])
    return markdown(["prediction", "AP50 (class mean)", "COCO's AP", "classes right", "number of objects right"], rows)


def methods_table(results: Path) -> str:
    """The score of each method on each task it was measured on, the best in bold, with its training."""
    rows = []
    for name, task, metric, part in TASKS:
        if not (results / name).is_file():
            continue
        runs = [run for run in read_json(results / name)["runs"] if part in run["row"]]
        equal_time = [run for run in runs if _limits(run).get("max_minutes") is not None]
        found = _scores_by_method(equal_time or runs, metric)
        rows.append([task, heading(metric), *_best_in_bold([found.get(m) for m in METHODS], metric)])
        if name == "points-small.json":
            rows.append(_polygons(results / "polygons.json"))
    return markdown(["task", "score", *METHODS], rows, text_columns=2)


def _polygons(path: Path) -> list[str]:
    """The same for polygons, which `setpredict demo` trains."""
    models = {model["name"].removesuffix(" decoder"): model for model in read_json(path)["models"]}
    found: dict[str, Scores] = {}
    for name, model in models.items():
        deviation = next(iter(model.get("error_std_x1000", {}).values()), None)
        mean = next(iter(model["error_x1000"].values()))
        training = f"{model['steps_trained']:,} steps"
        found[name] = Scores(mean / 1000, None if deviation is None else deviation / 1000, training)
    cells = _best_in_bold([found.get(m) for m in METHODS], "hungarian")
    return ["the corners of a polygon, from its angle", heading("hungarian"), *cells]


def distributed_table(path: Path) -> str:
    """Step times with one and two processes, from the file of `python -m benchmarks.distributed`."""
    rows = []
    for r in read_json(path)["rows"]:
        share = f"{100 * r['communication_share']:.0f}%" if r["processes"] > 1 else "–"
        rows.append([r["case"], str(r["processes"]), f"{r['parameters']:,}", f"{r['step_ms']:.0f} ms", share])
    return markdown(["model", "processes", "parameters", "step", "communication"], rows)


@dataclass(frozen=True)
class Scores:
    """The test score of a method on a task, and how long it was trained."""

    mean: float
    deviation: float | None
    """Standard deviation over seeds; None if there is one."""
    training: str


def _scores_by_method(runs: Sequence[Mapping[str, Any]], metric: str) -> dict[str, Scores]:
    """For each method, the test scores of its best row at the trained number of steps, without rows of a dense head."""
    by_row: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for run in runs:
        decoder = from_json(Experiment, run["config"], run["row"]).decoder
        if "dense" not in (decoder.kind, decoder.initial):
            by_row[decoder.method, run["row"]].append(run)
    best: dict[str, Scores] = {}
    for (method, _), group in by_row.items():
        scores = [_trained_score(run, metric) for run in group]
        found = Scores(fmean(scores), stdev(scores) if len(scores) > 1 else None, _training(group))
        if method not in best or _better(found.mean, best[method].mean, metric):
            best[method] = found
    return best


def _better(a: float, b: float, metric: str) -> bool:
    return a > b if percent(metric) else a < b


def _training(group: Sequence[Mapping[str, Any]]) -> str:
    """What limits the training of a row: minutes, or else steps."""
    counted = [run for run in timed(group) if "max_minutes" in _limits(run)]
    if not counted:
        return f"{max(run['steps_trained'] for run in group):,} steps"
    return f"{max(run['minutes'] for run in counted):.0f} min"


def _limits(run: Mapping[str, Any]) -> Mapping[str, Any]:
    return run["config"].get("train", {})


def _trained_score(run: Mapping[str, Any], metric: str) -> float:
    steps = from_json(Experiment, run["config"], run["row"]).decoder.solver.steps
    return next(e["metrics"][metric] for e in run["evaluations"] if e["steps"] in (None, steps))


def _best_in_bold(found: Sequence[Scores | None], metric: str) -> list[str]:
    means = [one.mean for one in found if one is not None]
    best = max(means) if percent(metric) else min(means)
    cells = []
    for one in found:
        if one is None:
            cells.append("–")
            continue
        text = " ± ".join(shown(metric, value) for value in (one.mean, one.deviation) if value is not None)
        cells.append(f"{f'**{text}**' if one.mean == best else text} ({one.training})")
    return cells
