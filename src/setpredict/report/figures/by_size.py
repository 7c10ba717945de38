"""The figure of a table whose rows are decoders on sets of n elements with d features: errors by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from setpredict.metrics.units import heading
from setpredict.report.figures.palette import line_style

Sizes = dict[tuple[int, int], list[float]]
"""The scores of all seeds by the size of the sets, (n, d)."""


def by_decoder(entries: Sequence[Mapping[str, Any]], name: str) -> dict[str, Sizes]:
    """The scores of a metric by decoder and size."""
    found: dict[str, Sizes] = {}
    for entry in entries:
        data = entry["config"]["data"]
        sizes = found.setdefault(entry["row"].rpartition(", n = ")[0], {})
        sizes.setdefault((data["points"], data["dim"]), []).append(entry["evaluations"][0]["metrics"][name])
    return found


def by_size(entries: Sequence[Mapping[str, Any]], name: str) -> Figure:
    """One panel per d: the mean error of every decoder by n, and that of each seed as a dot."""
    decoders = by_decoder(entries, name)
    features = sorted({d for sizes in decoders.values() for _, d in sizes})
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    panels = figure.subplots(1, len(features), sharey=True, squeeze=False)[0]
    for axes, d in zip(panels, features):
        for i, (decoder, sizes) in enumerate(decoders.items()):
            shown = sorted((n, values) for (n, features), values in sizes.items() if features == d)
            style = line_style(i)
            axes.plot([n for n, _ in shown], [1000 * mean(v) for _, v in shown], label=decoder, **style)
            axes.plot(
                [n for n, v in shown for _ in v], [1000 * x for _, v in shown for x in v], ".", color=style["color"]
            )
        axes.set(xscale="log", yscale="log", xlabel="n, elements per set")
        axes.set_title(f"d = {d}", fontsize=9)
        axes.set_xticks(sorted({n for sizes in decoders.values() for n, _ in sizes}))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.25)
    panels[0].set_ylabel(f"test {heading(name)}")
    figure.legend(*panels[0].get_legend_handles_labels(), fontsize=8, loc="outside right upper")
    return figure
