"""Polygons by angle of rotation: where each model errs, and where its output jumps."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from matplotlib.figure import Figure
from torch import Tensor

from setpredict.data.sources.polygons import polygon
from setpredict.losses import hungarian_loss
from setpredict.matching import PairCost, assign
from setpredict.model import SetPredictor
from setpredict.report.figures.palette import line_style

CORNERS = (3, 4, 6)


@torch.no_grad()
def turn(model: SetPredictor, corners: int, count: int = 721) -> tuple[Tensor, Tensor, Tensor]:
    """`count` angles over one period 2π/n of the polygon, the error at each, and the jump from each to the next.

    The jump is the distance between the outputs for neighboring angles as sets (cheapest assignment, largest corner),
    divided by the distance that a true corner moves: 1 is a smooth output, and a discontinuity grows with `count`.
    """
    angles = torch.linspace(0, 2 * math.pi / corners, count, dtype=torch.float64)
    inputs, target = polygon(corners, angles.numpy())
    predicted = model.predict(inputs)
    error = hungarian_loss(predicted, target.to(predicted.elements.dtype), cost="squared", masks="feature")
    likeliest = predicted.mask.topk(corners, dim=1).indices[..., None].expand(-1, -1, 2)
    drawn = predicted.elements.gather(1, likeliest)  # (count, n, 2)
    now, then = drawn[:-1], drawn[1:]
    order = assign(PairCost("squared").matrix(now, then))  # (count − 1, n), from `then` to `now`
    moved = (now.gather(1, order[..., None].expand_as(now)) - then).norm(dim=-1).amax(dim=1)
    distance = math.sin((angles[1] - angles[0]).item() / 2)  # a chord of a circle of radius ½
    return angles, error, moved / distance


def sweep(models: Mapping[str, SetPredictor], corners: tuple[int, ...] = CORNERS) -> Figure:
    """Error and jump by angle: one column per polygon, one line per model."""
    figure = Figure(figsize=(4.2 * len(corners), 5.2), layout="constrained")
    grid = figure.subplots(2, len(corners), squeeze=False, sharex="col")
    for column, n in enumerate(corners):
        for i, (name, model) in enumerate(models.items()):
            angles, error, jump = turn(model, n)
            degrees = torch.rad2deg(angles)
            grid[0, column].semilogy(degrees, error.clamp(min=1e-9), label=name, **line_style(i))
            grid[1, column].semilogy(degrees[:-1], jump.clamp(min=1e-3), label=name, **line_style(i))
        grid[0, column].set_title(f"{n} corners")
        grid[1, column].set_xlabel("angle in degrees, one period")
    grid[0, 0].set_ylabel("error (Hungarian, d²/2)")
    grid[1, 0].set_ylabel("output moves ÷ corner moves")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def hardest(model: SetPredictor, corners: int, factor: float = 10.0) -> dict[str, float]:
    """Median and largest error, largest jump, and the fraction of a period with an error above `factor` medians."""
    _, error, jump = turn(model, corners)
    return {
        "median_error": error.median().item(),
        "largest_error": error.max().item(),
        "largest_jump": jump.max().item(),
        "hard_fraction": (error > factor * error.median()).double().mean().item(),
    }
