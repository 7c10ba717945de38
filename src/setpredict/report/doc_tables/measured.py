"""Tables of measurements, from the JSON files that commands write."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from setpredict.config import Experiment, from_json
from setpredict.report.tables.text import markdown

METHODS = ("MLP", "DSPN", "iDSPN")


def demo_table(path: Path) -> str:
    """The errors of three decoders, from a file of `setpredict demo`."""
    rows = []
    for model in _read(path)["models"]:
        once, twice = model["error_x1000"].values()
        later = "–" if once == twice else f"{twice:.3f}"
        numbers = [f"{once:.3f}", later, f"{model['parameters']:,}", f"{model['steps_trained']:,}"]
        rows.append([model["name"], *numbers])
    return markdown(["decoder", "after T steps", "after 2T steps", "parameters", "steps trained"], rows)


def sweep_table(path: Path) -> str:
    """Errors and jumps over one period of the angle, from a file of `setpredict demo --task polygons`.

    Errors are means over the seeds ± their standard deviation; what is said by seed is in the order of the seeds.
    """
    rows = []
    models = _read(path)["models"]
    for corners in models[0]["sweep"]:
        for model in models:
            seeds = model["sweep"][corners]
            jumps = [jump["distance"] for seen in seeds for jump in seen["largest_jumps"]]
            cells = [
                _mean_and_spread([1000 * seen["median_error"] for seen in seeds], 3),
                _mean_and_spread([1000 * seen["largest_error"] for seen in seeds], 1),
                ", ".join(f"{seen['hardest_degrees']:.0f}°" for seen in seeds),
                ", ".join(str(seen["jumps"]) for seen in seeds),
                f"{max(jumps):.2f}" if jumps else "–",
            ]
            rows.append([corners, model["name"], *cells])
    heads = ["corners", "decoder", "median error ×1000", "largest error ×1000", "where it is, by seed"]
    return markdown([*heads, "jumps, by seed", "largest jump"], rows, text_columns=2)


def tutorial_table(path: Path) -> str:
    """A model beside trivial predictions, from the file of `python -m benchmarks.tutorial`."""
    content = _read(path)
    test = content["test"]
    trained = f"trained for {content['minutes']:.0f} minutes ({content['steps']:,} steps)"
    rows = []
    for name, scores in {f"the model, {trained}": test, **test["baselines"]}.items():
        right = scores["elements"]["accuracy"]["category"]
        values = (scores["coco"]["ap50"], scores["coco"]["ap"], right, scores["metrics"]["size_accuracy"])
        rows.append([name, *("–" if v is None or v != v else f"{100 * v:.1f}" for v in values)])
    return markdown(["prediction", "AP50", "COCO's AP", "classes right", "number of objects right"], rows)


def methods_table(results: Path) -> str:
    """The error of each method on each task it was measured on, the best in bold, with its training time."""
    rows = []
    for name, task in (
        ("demo.json", "8 random points through 64 numbers and back"),
        ("polygons.json", "polygons from their angle"),
    ):
        content = _read(results / name)
        errors = [next(iter(model["error_x1000"].values())) for model in content["models"]]
        steps = content.get("steps_each")
        trained = f"{content['seconds_each']:.0f} s" if steps is None else f"{steps:,.0f} steps"
        rows.append([task, "Hungarian", *_best_in_bold([(error, trained) for error in errors])])
    digits = _errors_by_method(_read(results / "mnist-small.json")["runs"], "chamfer")
    rows.append(["MNIST digits through 64 numbers and back", "Chamfer", *_best_in_bold([digits[m] for m in METHODS])])
    return markdown(["task", "set loss", *METHODS], rows, text_columns=2)


def distributed_table(path: Path) -> str:
    """Step times with one and two processes, from the file of `python -m benchmarks.distributed`."""
    rows = []
    for r in _read(path)["rows"]:
        share = f"{100 * r['communication_share']:.0f} %" if r["processes"] > 1 else "–"
        rows.append([r["case"], str(r["processes"]), f"{r['parameters']:,}", f"{r['step_ms']:.0f} ms", share])
    return markdown(["model", "processes", "parameters", "step", "communication"], rows)


Error = tuple[float, str] | None
"""An error × 1000 and the training time; None if it was not measured."""


def _errors_by_method(runs: Sequence[dict[str, Any]], metric: str) -> dict[str, Error]:
    """For each method, the mean test error of its best row at the trained number of steps."""
    by_row: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        by_row[from_json(Experiment, run["config"], run["row"]).decoder.method, run["row"]].append(run)
    best: dict[str, Error] = dict.fromkeys(METHODS)
    for (method, _), group in by_row.items():
        error = 1000 * sum(_trained_error(run, metric) for run in group) / len(group)
        before = best.get(method)
        if before is None or error < before[0]:
            best[method] = (error, f"{max(run['minutes'] for run in group):.0f} min")
    return best


def _trained_error(run: dict[str, Any], metric: str) -> float:
    steps = from_json(Experiment, run["config"], run["row"]).decoder.solver.steps
    return next(e["metrics"][metric] for e in run["evaluations"] if e["steps"] in (None, steps))


def _best_in_bold(errors: Sequence[Error]) -> list[str]:
    least = min(e[0] for e in errors if e is not None)
    cells = []
    for error in errors:
        if error is None:
            cells.append("–")
            continue
        number = f"**{error[0]:.3f}**" if error[0] == least else f"{error[0]:.3f}"
        cells.append(f"{number} ({error[1]})")
    return cells


def _mean_and_spread(values: Sequence[float], digits: int) -> str:
    return f"{fmean(values):.{digits}f} ± {pstdev(values):.{digits}f}"


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
