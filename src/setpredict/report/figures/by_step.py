"""Representation loss and set loss against the step, also beyond the steps that were trained."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from setpredict.report.figures.palette import LINES, STYLES
from setpredict.runs.loaded import Watched


def losses_by_step(seen: Mapping[str, tuple[Watched, int]]) -> Figure:
    """Two panels, a line a model: the median over the samples, and where the middle 80 % lie.

    `seen` has each model's samples and the number of steps it was trained with, marked by a thin line.
    """
    iterative = any(watched.prediction.repr_loss is not None for watched, _ in seen.values())
    figure = Figure(figsize=(8.4 if iterative else 4.4, 3.0), layout="constrained")
    panels = figure.subplots(1, 2 if iterative else 1, squeeze=False)[0]
    longest = max(watched.prediction.steps for watched, _ in seen.values())
    for i, (name, (watched, trained)) in enumerate(seen.items()):
        draw_band(panels[0], watched.set_loss, i, name, longest)
        if trained:
            for panel in panels:
                panel.axvline(trained, color=LINES[i % len(LINES)], linewidth=0.6, alpha=0.7)
        if watched.prediction.repr_loss is not None and iterative:
            draw_band(panels[1], watched.prediction.repr_loss, i, name, longest)
    for panel, title in zip(panels, ("set loss", "representation loss")):
        panel.set(title=title, xlabel="inner step (thin line: as trained)")
        panel.title.set_fontsize(9)
        panel.grid(alpha=0.25)
        panel.legend(fontsize=8)
    return figure


def draw_band(axes: Axes, values: Tensor, line: int, name: str, longest: int) -> None:
    """The median of (T+1, B) against the step with the middle 80 % around it; one set alone is a level line."""
    low, middle, high = np.quantile(values.double().clamp(min=1e-12).numpy(), (0.1, 0.5, 0.9), axis=1)
    steps = np.arange(len(middle))
    if len(middle) == 1:
        steps, low, middle, high = np.array([0, max(longest, 1)]), *(np.repeat(v, 2) for v in (low, middle, high))
    color = LINES[line % len(LINES)]
    axes.fill_between(steps, low, high, color=color, alpha=0.15, linewidth=0)
    axes.semilogy(steps, middle, STYLES[line % len(STYLES)], color=color, label=name)
