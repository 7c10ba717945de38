"""Point sets step by step, without a data set: one row per sample, one column per step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from setpredict.report.figures.drawing import draw_points
from setpredict.sets import Prediction, Sets


def progression(
    prediction: Prediction,
    target: Sets,
    steps: Sequence[int],
    beside: Mapping[str, Sets] | None = None,
    samples: Sequence[int] = (0, 1, 2, 3),
    title: str = "",
) -> Figure:
    """Y0 … YT of some samples with the target as rings, then the predictions of other models and the target itself."""
    beside = beside or {}
    columns = len(steps) + len(beside) + 1
    figure = Figure(figsize=(1.35 * columns, 1.4 * len(samples) + 0.4), layout="constrained")
    grid = figure.subplots(len(samples), columns, squeeze=False)
    for row, sample in enumerate(samples):
        for column, t in enumerate(steps):
            label = f"$Y^{{({t})}}$" if row == 0 else ""
            draw_points(grid[row, column], prediction.step(t), sample, label, target)
        for column, (name, sets) in enumerate(beside.items(), start=len(steps)):
            draw_points(grid[row, column], sets, sample, name if row == 0 else "", target)
        draw_points(grid[row, -1], target, sample, "target" if row == 0 else "")
    if title:
        figure.suptitle(title, fontsize=10)
    return figure
