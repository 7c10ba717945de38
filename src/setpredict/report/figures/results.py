"""The figures of RESULTS.md: the training curves of a table, or the scores of an ablation study."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from statistics import fmean
from textwrap import fill
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from setpredict.metrics.units import heading, percent
from setpredict.report.figures.curves import within_percent
from setpredict.report.figures.palette import GRAY, LINE_COLORS, line_style

Entry = Mapping[str, Any]
Groups = Mapping[str, Mapping[str, str]]


def curves(entries: Sequence[Entry], name: str, pair: Sequence[Entry] = (), stepped: Sequence[Entry] = ()) -> Figure:
    """A validation metric by training time, one line per run.

    `pair` are two trainings of their own that are compared with each other, in a second panel: their times are not
    those of the first panel, even where a row has the same name. `stepped` are runs that a panel shows by training
    steps, which mean the same on every machine.
    """
    shown: list[tuple[Sequence[Entry], str, str]] = [(entries, "minutes of training", "")]
    if pair:
        shown.append((pair, "minutes of training", "the same training, two implementations"))
    if stepped:
        shown.append((stepped, "training steps", ""))
    figure = Figure(figsize=(7 + 2 * len(shown), 3.6), layout="constrained")
    panels = figure.subplots(1, len(shown), squeeze=False, width_ratios=[1 if title else 2 for *_, title in shown])[0]
    labels = list(dict.fromkeys(e["row"] for e in [*entries, *pair, *stepped]))
    for axes, (group, of, title) in zip(panels, shown):
        lines = [_by_steps(e, name) if of == "training steps" else _own_part(e, group, name) for e in group]
        for entry, line in zip(group, lines):
            axes.plot(*line, label=entry["row"], **line_style(labels.index(entry["row"])))
        _scale_axes(axes, name, [x for line in lines for x in line[0]])
        axes.set(xlabel=of, ylabel=f"validation {heading(name)}")
        axes.set_title(title, fontsize=9)
    drawn = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels())}
    figure.legend(list(drawn.values()), list(drawn), fontsize=8, loc="outside right upper")
    return figure


def metric_curves(entry: Entry, names: Sequence[str]) -> Figure:
    """Several validation metrics of one run by training time: what a table of one row has to show."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots()
    for i, name in enumerate(names):
        axes.plot(entry["curve"]["minutes"], _scaled(entry["curve"][name], name), label=heading(name), **line_style(i))
    _scale_axes(axes, names[0], entry["curve"]["minutes"])
    axes.set(xlabel="minutes of training", ylabel="validation score" if len(names) > 1 else "")
    axes.set_title(entry["row"], fontsize=9)
    figure.legend(fontsize=8, loc="outside right upper")
    return figure


def _scale_axes(axes: Axes, name: str, times: Sequence[float]) -> None:
    """Logarithmic times where they are far apart; percentages from 0 to 100 at most, distances logarithmic."""
    if 0 < 50 * min(times) < max(times):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    if percent(name):
        within_percent(axes)
    else:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.25, which="both")


def _own_part(entry: Entry, entries: Sequence[Entry], name: str) -> tuple[list[float], list[float]]:
    """A run's minutes and values, without those of the run that it continues, except for the last."""
    minutes, values = entry["curve"]["minutes"], _scaled(entry["curve"][name], name)
    first = [e for e in entries if e["row"] == entry.get("after") and e.get("seed") == entry["seed"]]
    start = max(first[0]["curve"]["minutes"]) if first else 0.0
    kept = [(m, v) for m, v in zip(minutes, values) if m >= start]
    return [m for m, _ in kept], [v for _, v in kept]


def _by_steps(entry: Entry, name: str) -> tuple[list[float], list[float]]:
    """A run's training steps at each validation, and the values; older records have the first only by their number."""
    values = _scaled(entry["curve"][name], name)
    if "steps" in entry["curve"]:
        return entry["curve"]["steps"], values
    every = entry["config"]["train"]["val_every"]
    return [min(every * (i + 1), entry["steps_trained"]) for i in range(len(values))], values


def answers(entries: Sequence[Entry], groups: Groups, name: str) -> Figure:
    """One panel per question: the test score of every answer, at each number of steps."""
    columns = 2
    rows = -(-len(groups) // columns)
    heights = [_height(groups, i, columns) for i in range(rows)]
    figure = Figure(figsize=(9, 0.6 + sum(heights)), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, height_ratios=heights).ravel().tolist()
    for axes, (question, group) in zip(panels, groups.items()):
        _answers(axes, entries, group, name)
        axes.set_title(fill(question, 50), fontsize=9, loc="left")
    for axes in panels[len(groups) :]:
        axes.set_axis_off()
    panels[0].legend(fontsize=7, loc="best")
    figure.supxlabel(f"test {heading(name)}", fontsize=9)
    return figure


def _answers(axes: Axes, entries: Sequence[Entry], group: Mapping[str, str], name: str) -> None:
    for i, row in enumerate(group.values()):
        mine = [e["evaluations"] for e in entries if e["row"] == row]
        for j, first in enumerate(mine[0]):
            values = _scaled([m[j]["metrics"][name] for m in mine], name)
            label = f"{first['steps']} steps" if i == 0 else None
            axes.plot(values, [i] * len(values), "os^"[j % 3], color=LINE_COLORS[j % len(LINE_COLORS)], label=label)
    axes.set_yticks(range(len(group)), list(group), fontsize=8)
    axes.set_ylim(len(group) - 0.5, -0.5)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", labelsize=8, labelbottom=True)
    axes.grid(axis="x", alpha=0.25)
    axes.axvline(_scaled([_baseline(entries, group, name)], name)[0], color=GRAY, linewidth=1, zorder=0)


def _baseline(entries: Sequence[Entry], group: Mapping[str, str], name: str) -> float:
    """The first answer's score, averaged over its seeds: a line to compare the others with."""
    first = next(iter(group.values()))
    return fmean(e["evaluations"][0]["metrics"][name] for e in entries if e["row"] == first)


def _height(groups: Groups, row: int, columns: int) -> float:
    """The height of a row of panels in inches, by the largest number of answers in it."""
    return 0.55 + 0.24 * max(len(g) for g in list(groups.values())[row * columns : (row + 1) * columns])


def _scaled(values: Sequence[float], name: str) -> list[float]:
    return [(100 if percent(name) else 1000) * v for v in values]


def svg(figure: Figure) -> str:
    """The figure as SVG, byte for byte the same whenever it is drawn."""
    with rc_context({"svg.hashsalt": "setpredict", "svg.fonttype": "none"}):
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()
