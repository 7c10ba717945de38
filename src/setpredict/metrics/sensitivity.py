"""How far a tiny change of the code moves a prediction: a loop that has not converged may amplify rounding errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from setpredict.core import rng
from setpredict.losses.pairs import take
from setpredict.matching import assign
from setpredict.sets import Sets

CHANGE = 1e-6
"""Of the code, relative to its size: about ten times the rounding error of float32."""
VISIBLE = 0.01
"""Of the unit range: a set that moves by more looks different."""


@dataclass(frozen=True)
class Sensitivity:
    """What a change of the code by `CHANGE` does to predictions."""

    samples: int
    """How many were tried."""
    moved: int
    """How many become another set: a number or the mask of an element moves by more than `VISIBLE`."""
    largest: float
    """The farthest that any number or mask moves; infinity if one is no longer finite (NaN once stored)."""

    @property
    def is_chaotic(self) -> bool:
        return self.moved > 0

    def __str__(self) -> str:
        far = f"by up to {self.largest:.2g}" if math.isfinite(self.largest) else "some of them to NaN or infinity"
        return (
            f"A change of the latent vector by a millionth moves {self.moved} of {self.samples} predictions visibly, "
            f"{far}"
        )


def sensitivity(decode: Callable[[Float[Tensor, "B L"]], Sets], code: Float[Tensor, "B L"]) -> Sensitivity:
    """Decode the same codes twice, the second time changed a little in a random direction that is always the same.

    >>> doubled = sensitivity(lambda z: Sets(z[:, :, None], torch.ones(z.shape)), torch.ones(4, 8))
    >>> doubled.samples, doubled.moved, doubled.largest < 1e-5
    (4, 0, True)
    """
    B, L = code.shape
    direction = torch.randn(B, L, generator=torch.Generator().manual_seed(rng.key(0, "sensitivity") % 2**63))
    direction = direction.to(code) / direction.to(code).norm(dim=1, keepdim=True)
    changed = code + CHANGE * code.norm(dim=1, keepdim=True) * direction
    a, b = (decode(z).features_with_mask.cpu().double() for z in (code, changed))
    lost = ~b.isfinite().flatten(1).all(dim=1)  # (B,), which cannot be compared
    b = torch.where(lost[:, None, None], a, b)
    pairs = assign(torch.cdist(a, b))  # elements that have only changed places are no change
    distance = (take(a, pairs) - b).abs().flatten(1).amax(dim=1) if a.numel() else a.new_zeros(B)
    distance[lost] = math.inf
    return Sensitivity(B, int((distance > VISIBLE).sum()), float(distance.amax()) if B else 0.0)
