"""The picture of a table of images: a few test samples as every row predicts them."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from setpredict.report.figures.drawing import draw_set, input_image, shown_as_text
from setpredict.report.figures.legend import HEIGHT, add_legend, picture_legend
from setpredict.report.watched import watch
from setpredict.runs.loaded import LoadedRun

SAMPLES = 4


def row_pictures(runs: Mapping[str, LoadedRun]) -> Figure:
    """One column per test sample; the target, then one row per run, by name. All runs have the same data."""
    watched = {name: watch(run, range(SAMPLES)) for name, run in runs.items()}
    task, batch = next(iter(runs.values())).task, next(iter(watched.values())).batch
    as_text = shown_as_text(task)
    names = [*(["input"] if as_text else []), "target", *runs]
    wide, high = (2.6, 0.16 * (task.max_size + 2)) if as_text else (1.8, 1.8)
    figure = Figure(figsize=(wide * SAMPLES + 0.3, high * len(names) + HEIGHT), layout="constrained")
    grid = figure.subplots(len(names), SAMPLES, squeeze=False)
    for axes, name in zip(grid, names):
        for sample in range(SAMPLES):
            if name == "input":
                axes[sample].imshow(input_image(task, batch, sample))
                axes[sample].set(xticks=[], yticks=[])
            else:
                predicted = None if name == "target" else watched[name].prediction.final
                draw_set(axes[sample], task, batch, sample, predicted, "")
        axes[0].text(-0.04, 0.5, name, fontsize=8, rotation=90, va="center", ha="right",
                     transform=axes[0].transAxes)  # fmt: skip
    add_legend(figure, picture_legend(task))
    return figure
