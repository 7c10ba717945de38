"""Detections and targets for the tests of average precision, full of ties and duplicates."""

from typing import Any

import torch

from setpredict.data.clevr.states import COORDINATE_SCALE, GROUPS

CLEVR: dict[str, Any] = {"coordinates": 3, "scale": COORDINATE_SCALE, "groups": GROUPS}
"""The layout of CLEVR's states, as the metrics take it."""


def random_boxes(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Boxes on a coarse grid: many overlap, many are equal, some are empty or have their sides swapped."""
    low = torch.randint(0, 3, (*shape, 2), generator=generator)
    side = torch.randint(-1, 3, (*shape, 2), generator=generator)
    return torch.cat([low, low + side], dim=-1) / 4


def random_states(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """CLEVR states with coordinates on a coarse grid and few attributes, some with two equal maxima in a group."""
    coordinates = torch.randint(-2, 3, (*shape, 3), generator=generator) / 8
    states = torch.cat([coordinates, torch.zeros(*shape, 15)], dim=-1)
    for start, _ in GROUPS.values():
        chosen = start + (torch.rand(shape, generator=generator) < 0.2).long()
        states.scatter_(-1, chosen[..., None], 1.0)
    states[..., GROUPS["color"][0]][torch.rand(shape, generator=generator) < 0.1] = 1.0
    return states


def random_scores(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Five values, also below 0 and above 1."""
    return torch.randint(-1, 4, shape, generator=generator) / 2


def two_images():
    """Image 0: its one target is found, by the best detection. Image 1: two targets, of which the second is missed."""
    box, far = [0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]
    boxes = torch.tensor([[box, far], [far, box]])
    scores = torch.tensor([[0.9, 0.8], [0.7, 0.1]])
    targets = torch.tensor([[box, box], [box, [0.0, 0.5, 0.5, 1.0]]])
    mask = torch.tensor([[True, False], [True, True]])
    return boxes, scores, targets, mask
