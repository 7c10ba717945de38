"""Training curves from the logs of one or several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from setpredict.metrics.units import DISTANCES, heading, percent
from setpredict.report.figures.palette import line_style

Log = Sequence[Mapping[str, str]]


def column(log: Log, name: str) -> tuple[list[int], list[float]]:
    """The steps and values of one column of a log, without its empty cells."""
    pairs = [(int(float(row["step"])), float(row[name])) for row in log if name in row]
    return [p[0] for p in pairs], [p[1] for p in pairs]


def training_curves(logs: Mapping[str, Log]) -> Figure | None:
    """The training loss and the main validation metrics, one panel each; None if nothing was logged twice.

    A single value is no curve: it stands in the tables.
    """
    names = [n for log in logs.values() for row in log for n in row if n.startswith("val_")]
    panels = ["loss", *_main_metrics(list(dict.fromkeys(names)))]
    panels = [p for p in panels if any(len(column(log, p)[0]) > 1 for log in logs.values())]
    if not panels:
        return None
    figure = Figure(figsize=(3.6 * len(panels), 2.9), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, name in zip(grid, panels):
        metric = name.removeprefix("val_")
        for i, (run, log) in enumerate(logs.items()):
            steps, values = column(log, name)
            scale = 100 if percent(metric) else 1000 if metric in DISTANCES else 1
            marker = "." if name != "loss" else ""
            drawn = [scale * v for v in values]
            axes.plot(steps, drawn, label=run, marker=marker, clip_on=False, **line_style(i))
        if percent(metric):
            within_percent(axes)
        elif all(v > 0 for log in logs.values() for v in column(log, name)[1]):
            axes.set_yscale("log")
        axes.set(title=("training loss" if name == "loss" else f"validation {heading(metric)}"), xlabel="step")
        axes.title.set_fontsize(9)
        axes.grid(alpha=0.25)
    if len(logs) > 1:
        grid[0].legend(fontsize=7)
    return figure


def within_percent(axes: Axes) -> None:
    """End the vertical axis at 0 and at 100%, where values can end too."""
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, 0.0), min(high, 100.0))


def _main_metrics(names: Sequence[str]) -> list[str]:
    """The set distance, the first and the last average precision, and the accuracies of set sizes or categories."""
    distances = [n for n in names if n.removeprefix("val_") in DISTANCES]
    precisions = [n for n in names if n.startswith("val_AP")]
    return [
        *distances,
        *precisions[:: max(1, len(precisions) - 1)][:2],
        *(n for n in names if n.endswith("_accuracy")),
    ]
