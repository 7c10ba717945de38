"""Augmentation of sets with coordinates: inputs and targets are rotated and moved together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from setpredict.data.batch import AugmentedSplit, Batch, Split
from setpredict.sets import Sets

NUMBERS = 6
"""Random numbers per sample: three for the rotation, three for the shift."""


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Two or three features that are coordinates in one unit: user's value = feature × scale + offset."""

    features: tuple[int, ...]
    scale: Float[Tensor, " C"]
    offset: Float[Tensor, " C"]

    def of(self, sets: Sets) -> Float[Tensor, "B N C"]:
        return sets.elements[..., list(self.features)] * self.scale + self.offset

    def replaced(self, sets: Sets, values: Float[Tensor, "B N C"]) -> Sets:
        elements = sets.elements.clone()
        elements[..., list(self.features)] = (values - self.offset) / self.scale
        return Sets(elements * (sets.mask > 0)[..., None], sets.mask)


def rotated(split: Split, input: Coordinates, target: Coordinates, shift: float, seed: int) -> AugmentedSplit:
    """A training split of sets to sets, rotated and moved anew in every epoch."""
    change = partial(rotate_sets, input=input, target=target, shift=shift)
    return AugmentedSplit(split, change, NUMBERS, (seed, "rotate"))


def rotate_sets(
    batch: Batch, numbers: Float[Tensor, "B 6"], input: Coordinates, target: Coordinates, shift: float
) -> Batch:
    """Rotate samples of sets to sets about the center of each input and move them by up to `shift` per coordinate.

    The shift is in the user's units. Input and target are changed alike.
    """
    assert isinstance(batch.input, Sets)
    C = len(input.features)
    turn, moved = rotations(numbers[:, :3], C), shift * (2 * numbers[:, None, 3 : 3 + C] - 1)
    given, present = input.of(batch.input), (batch.input.mask > 0)[..., None]
    center = (given * present).sum(dim=1, keepdim=True) / present.sum(dim=1, keepdim=True).clamp(min=1)  # (B, 1, C)

    def change(sets: Sets, coordinates: Coordinates) -> Sets:
        return coordinates.replaced(sets, (coordinates.of(sets) - center) @ turn.mT + center + moved)

    return Batch(change(batch.input, input), change(batch.target, target), batch.index, batch.centers)


def rotations(numbers: Float[Tensor, "B 3"], dimensions: int) -> Float[Tensor, "B C C"]:
    """Uniformly distributed rotations of the plane or of space, from uniform numbers."""
    a, b, c = numbers.unbind(1)
    if dimensions == 2:
        cos, sin = torch.cos(2 * torch.pi * a), torch.sin(2 * torch.pi * a)
        return torch.stack([cos, -sin, sin, cos], dim=1).view(-1, 2, 2)
    low, high, b, c = (1 - a).sqrt(), a.sqrt(), 2 * torch.pi * b, 2 * torch.pi * c
    x, y, z, w = low * torch.sin(b), low * torch.cos(b), high * torch.sin(c), high * torch.cos(c)  # a unit quaternion
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w),
        2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
        2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, dim=1).view(-1, 3, 3)
