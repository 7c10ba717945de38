"""How time and memory grow: `python -m benchmarks.scaling` measures, fits exponents and plots; --draw only plots.

Each point is a training step of DSPN on sets (the MLP encoder, unrolled, Chamfer over all steps) in a process of its
own. One of N, T, B and D changes at a time; T also with `recompute` and with `LastSteps(1)`.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.memory import CLEAR, kilobytes
from benchmarks.page import LABELS, update

ROOT = Path(__file__).parents[1]
START = {"N": 256, "T": 10, "B": 16, "D": 2}
CURVES: dict[str, tuple[str, list[int], dict[str, Any]]] = {
    "N": ("N", [128, 256, 512, 1024], {}),
    "T": ("T", [5, 10, 20, 40], {}),
    "T, recompute": ("T", [5, 10, 20, 40, 100], {"recompute": True}),
    "T, backprop_steps=1": ("T", [5, 10, 20, 40, 100], {"gradient": "last:1", "initial": "fixed"}),
    "B": ("B", [4, 8, 16, 32, 64], {}),
    "D": ("D", [2, 8, 32, 128], {}),
}


def point(N: int, T: int, B: int, D: int, gradient: str = "unrolled", **options: Any) -> tuple[float, int]:
    """Seconds and bytes of one training step, after a step of a single sample that compiles and warms up."""
    import torch

    from benchmarks.timing import seconds
    from setpredict.config import GradientDescent
    from setpredict.config.inner import parse_gradient
    from setpredict.decoders import DSPN
    from setpredict.encoders import DeepSetEncoder
    from setpredict.losses import outer_loss
    from setpredict.sets import Sets

    torch.manual_seed(0)
    solver, encoder = GradientDescent(steps=T), DeepSetEncoder(D, 64, N)
    decoder = DSPN(encoder, solver=solver, gradient=parse_gradient(gradient), **options)

    def step(batch: int) -> None:
        target = Sets(torch.rand(batch, N, D), torch.ones(batch, N, dtype=torch.bool))
        prediction = decoder(encoder(target.elements, target.mask))
        outer_loss(prediction, target, "chamfer")["loss"].backward()

    step(1)
    gc.collect()
    CLEAR.write_text("5")
    idle = kilobytes("VmRSS")
    first = seconds(lambda: step(B))
    size = 1024 * (kilobytes("VmHWM") - idle)
    return min(first, *(seconds(lambda: step(B)) for _ in range(3))), size


def exponent(values: list[int], measured: list[float]) -> float:
    """The exponent p of the power law c·x^p, fitted to the points by least squares on logarithms."""
    return float(np.polyfit(np.log(values), np.log(measured), 1)[0])


def measure(name: str) -> dict[str, Any]:
    """One curve: its points and the exponents fitted to them."""
    letter, values, options = CURVES[name]
    times, sizes = [], []
    for value in values:
        command = [sys.executable, "-m", "benchmarks.scaling", "--point", json.dumps(START | {letter: value} | options)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            raise RuntimeError(f"{name} = {value} failed:\n{done.stderr}")
        seconds, size = json.loads(done.stdout)
        times.append(seconds)
        sizes.append(size)
    fits = {"time_exponent": exponent(values, times), "memory_exponent": exponent(values, sizes)}
    return {"values": values, "seconds": times, "bytes": sizes} | fits


def plot(curves: dict[str, Any], path: Path) -> None:
    """Draw all curves, time on the left and memory on the right."""
    from matplotlib.figure import Figure

    from setpredict.core.files import write_text
    from setpredict.report.figures.palette import line_style
    from setpredict.report.figures.results import svg

    figure = Figure(figsize=(10, 5), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, field, label, unit in ((panels[0], "seconds", "time", 1), (panels[1], "bytes", "memory", 2**20)):
        for i, (name, curve) in enumerate(curves.items()):
            relative = np.array(curve["values"]) / curve["values"][0]
            legend = f"{LABELS.get(name, name).replace('`', '')}: $x^{{{curve[f'{label}_exponent']:.2f}}}$"
            axes.loglog(relative, np.array(curve[field]) / unit, marker="os^Dv*"[i % 6], label=legend, **line_style(i))
        axes.set_xlabel("multiple of the first value")
        axes.set_ylabel({"time": "seconds per step", "memory": "peak memory (MB)"}[label])
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.14))  # below: not over the data
    write_text(path, svg(figure))


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--point", help=argparse.SUPPRESS)
    parser.add_argument("--draw", action="store_true", help="draw the figure again from the last measurements")
    given = parser.parse_args()
    if given.point:
        print(json.dumps(point(**json.loads(given.point))))
        return
    from benchmarks.machine import describe

    path, picture = ROOT / "benchmarks" / "results" / "scaling.json", ROOT / "docs" / "images" / "scaling.svg"
    if given.draw:
        plot(json.loads(path.read_text(encoding="utf-8"))["curves"], picture)
        return
    curves = {name: measure(name) for name in track(CURVES, description="scaling")}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": describe(), "start": START, "curves": curves}, indent=2) + "\n")
    plot(curves, picture)
    update(ROOT / "docs" / "performance.md", path.parent)


if __name__ == "__main__":
    main()
