"""Polygons by angle of rotation: where each model errs, and where its output jumps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from setpredict.data.sources.polygons import RADIUS, polygon
from setpredict.losses import hungarian_loss
from setpredict.matching import PairCost, assign
from setpredict.model import SetPredictor
from setpredict.report.figures.palette import line_style

CORNERS = (3, 4, 6)
COUNT = 3601
"""Angles over one period."""
LEAST = 0.1 * RADIUS
"""A jump moves some corner by at least this much."""
HALVINGS = 10
"""A step of the angle that moves the output is halved this often: what still moves it then is a jump."""
HARD = 10.0
"""An angle is hard if the error there is above this many medians."""
LISTED = 10
"""The largest jumps that a record lists."""


@dataclass(frozen=True)
class Sweep:
    """One model over one period 2π/n of a polygon's angle."""

    angles: Tensor
    """(count,) in radians."""
    error: Tensor
    """(count,) The Hungarian loss at each angle."""
    speed: Tensor
    """(count − 1,) How far the output moves from each angle to the next, divided by how far a true corner moves."""
    jumps: Tensor
    """(J,) The angles at which the output is discontinuous."""
    distances: Tensor
    """(J,) How far it moves there."""

    def summary(self) -> dict[str, Any]:
        """What a record says about it."""
        hard = self.error > HARD * self.error.median()
        largest = self.distances.argsort(descending=True)[:LISTED]
        return {
            "median_error": self.error.median().item(),
            "largest_error": self.error.max().item(),
            "hardest_degrees": round(math.degrees(self.angles[self.error.argmax()].item()), 3),
            "hard_fraction": hard.double().mean().item(),
            "largest_speed": self.speed.max().item(),
            "jumps": len(self.jumps),
            "largest_jumps": [
                {"degrees": round(math.degrees(self.jumps[i].item()), 3), "distance": self.distances[i].item()}
                for i in largest
            ],
        }


@torch.no_grad()
def sweep(model: SetPredictor, corners: int, count: int = COUNT) -> Sweep:
    """Predict a polygon at `count` angles over one period, and find where the prediction jumps.

    Outputs at two angles are compared as sets (cheapest assignment, largest distance of two corners). Wherever the
    output moves by more than `LEAST` from one angle to the next, the step is halved `HALVINGS` times, each time towards
    the half in which the output moves farther. A continuous output moves ever less, however steep it is; one that still
    moves by more than `LEAST` has a jump there.
    """
    angles = torch.linspace(0, 2 * math.pi / corners, count, dtype=torch.float64)
    inputs, target = polygon(corners, angles.numpy())
    predicted = model.predict(inputs)
    error = hungarian_loss(predicted, target.to(predicted.elements.dtype), cost="squared", masks="feature")
    drawn = _drawn(model, corners, angles)  # (count, n, 2)
    moved = _moved(drawn[:-1], drawn[1:])  # (count − 1,)
    chord = 2 * RADIUS * math.sin((angles[1] - angles[0]).item() / 2)

    steep = moved > LEAST
    low, high = angles[:-1][steep], angles[1:][steep]
    at_low, at_high = drawn[:-1][steep], drawn[1:][steep]
    for _ in range(HALVINGS if len(low) else 0):
        middle = (low + high) / 2
        between = _drawn(model, corners, middle)
        left = _moved(at_low, between) >= _moved(between, at_high)
        low, high = torch.where(left, low, middle), torch.where(left, middle, high)
        at_low = torch.where(left[:, None, None], at_low, between)
        at_high = torch.where(left[:, None, None], between, at_high)
    distances = _moved(at_low, at_high)
    jump = distances > LEAST
    return Sweep(angles, error, moved / chord, ((low + high) / 2)[jump], distances[jump])


def draw_sweeps(sweeps: Mapping[str, Mapping[int, Sequence[Sweep]]]) -> Figure:
    """Errors and jumps by angle, from sweeps by model, corners and seed.

    A pair of rows per model and a column per polygon: above, one line per seed; below, one mark per jump, a row of
    marks per seed.
    """
    corners = list(next(iter(sweeps.values())))
    figure = Figure(figsize=(4.2 * len(corners), 2.9 * len(sweeps)), layout="constrained")
    heights = [3, 1] * len(sweeps)
    grid = figure.subplots(2 * len(sweeps), len(corners), squeeze=False, sharex="col", height_ratios=heights)
    every = [s.error for by_corners in sweeps.values() for seeds in by_corners.values() for s in seeds]
    low, high = (float(f([float(f(error).item()) for error in every])) for f in (min, max))
    for i, (name, by_corners) in enumerate(sweeps.items()):
        color = line_style(i)["color"]
        for column, n in enumerate(corners):
            above, below = grid[2 * i, column], grid[2 * i + 1, column]
            for seed, found in enumerate(by_corners[n]):
                above.semilogy(torch.rad2deg(found.angles), found.error.clamp(min=1e-9), color=color, linewidth=0.7)
                degrees = torch.rad2deg(found.jumps)
                below.plot(degrees, torch.full_like(degrees, seed), "|", color=color, markersize=5)
            above.set_ylim(max(low, 1e-9) / 2, high * 2)
            below.set_ylim(len(by_corners[n]) - 0.4, -0.6)
            below.set_yticks([])
        grid[2 * i, 0].set_ylabel(f"{name}\nerror (d²/2)")
        grid[2 * i + 1, 0].set_ylabel("jumps", fontsize="small")
    for column, n in enumerate(corners):
        grid[0, column].set_title(f"{n} corners")
        grid[-1, column].set_xlabel("angle in degrees, one period")
    return figure


def _drawn(model: SetPredictor, corners: int, angles: Tensor) -> Tensor:
    """The corners that a picture shows, those with the largest masks: (count, n, 2)."""
    predicted = model.predict(polygon(corners, angles.numpy())[0])
    likeliest = predicted.mask.topk(corners, dim=1).indices[..., None].expand(-1, -1, 2)
    return predicted.elements.gather(1, likeliest)


def _moved(now: Tensor, then: Tensor) -> Tensor:
    """The largest distance of two corners after the cheapest assignment of two polygons, (B, n, 2) each: (B,)."""
    order = assign(PairCost("squared").matrix(now, then))  # (B, n), from `then` to `now`
    return (now.gather(1, order[..., None].expand_as(now)) - then).norm(dim=-1).amax(dim=1)
