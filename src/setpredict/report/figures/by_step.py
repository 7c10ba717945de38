"""Representation loss and set loss by inner step, also beyond the number of steps used in training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from setpredict.report.figures.palette import line_style
from setpredict.report.watched import Watched


def losses_by_step(models: Mapping[str, tuple[Watched, int]]) -> Figure:
    """Two panels with one line per model: the median over the samples, and the range of the middle 80%.

    `models` maps each model's name to its decoded samples and the number of steps it was trained with, which a thin
    vertical line marks.
    """
    iterative = any(watched.prediction.repr_loss is not None for watched, _ in models.values())
    figure = Figure(figsize=(8.4 if iterative else 4.4, 3.0), layout="constrained")
    panels = figure.subplots(1, 2 if iterative else 1, squeeze=False)[0]
    longest = max(watched.prediction.steps for watched, _ in models.values())
    for i, (name, (watched, trained)) in enumerate(models.items()):
        draw_band(panels[0], watched.set_loss, i, name, longest)
        if trained:
            for panel in panels:
                panel.axvline(trained, color=line_style(i)["color"], linewidth=0.6, alpha=0.7)
        if watched.prediction.repr_loss is not None and iterative:
            draw_band(panels[1], watched.prediction.repr_loss, i, name, longest)
    for panel, title in zip(panels, ("set loss", "representation loss")):
        panel.set(title=title, xlabel="inner step (thin line: as trained)")
        panel.title.set_fontsize(9)
        panel.grid(alpha=0.25)
        panel.legend(fontsize=8)
    return figure


def draw_band(axes: Axes, values: Tensor, line: int, name: str, longest: int) -> None:
    """The median of `values` (T+1, B) by step, with a band for the middle 80%; a single step is a horizontal line."""
    low, middle, high = np.quantile(values.double().clamp(min=1e-12).numpy(), (0.1, 0.5, 0.9), axis=1)
    steps = np.arange(len(middle))
    if len(middle) == 1:
        steps, low, middle, high = np.array([0, max(longest, 1)]), *(np.repeat(v, 2) for v in (low, middle, high))
    style = line_style(line)
    axes.fill_between(steps, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.semilogy(steps, middle, label=name, **style)
