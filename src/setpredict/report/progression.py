"""Pictures of sets taking shape: one row a sample, one column a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from setpredict.files import atomic
from setpredict.sets import Prediction, Sets

COLOURS = "viridis"  # ordered by lightness: readable in print and for colour-blind readers


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure whole or not at all; the ending of the name says the format."""
    path = Path(path)
    FigureCanvasAgg(figure)
    with atomic(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip("."), dpi=150, bbox_inches="tight")
    return path


def draw_points(axes: Axes, sets: Sets, sample: int, title: str = "", others: Sets | None = None) -> None:
    """One set of points, coloured by mask (dark: absent, light: present); `others` as faint rings behind."""
    if others is not None:
        ring = others[sample].to_list()[0].cpu().numpy()
        axes.scatter(ring[:, 0], ring[:, 1], s=42, facecolors="none", edgecolors="#bbbbbb", linewidths=1)
    points = sets.elements[sample].detach().cpu().numpy()
    mask = np.clip(sets.mask[sample].detach().float().cpu().numpy(), 0, 1)
    shown = mask > 0.02
    axes.scatter(
        points[shown, 0], points[shown, 1], c=1 - mask[shown], s=16, cmap=COLOURS, vmin=0, vmax=1, linewidths=0
    )
    axes.set(xlim=(-0.1, 1.1), ylim=(-0.1, 1.1), xticks=[], yticks=[], aspect="equal")
    axes.set_title(title, fontsize=9)


def progression(
    prediction: Prediction,
    target: Sets,
    steps: Sequence[int],
    beside: Mapping[str, Sets] | None = None,
    samples: Sequence[int] = (0, 1, 2, 3),
    title: str = "",
) -> Figure:
    """Y0 … YT of some samples with the target as rings, then other models' answers and the target itself."""
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
