"""Where the inner loop starts: the initial set Y0, learned, fixed, random a sample, or predicted from z."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from setpredict.encoders import MLP

Initial = Literal["learned", "fixed", "random", "predicted"]


class SharedSet(nn.Module):
    """One initial set for all samples: elements uniform in [0, 1), masks as given; learned (the paper) or fixed."""

    def __init__(self, size: int, features: int, mask: float | None, learned: bool = True):
        super().__init__()
        values = torch.rand(size, features)
        if mask is not None:
            values = torch.cat([values, torch.full((size, 1), mask)], dim=1)
        if learned:
            self.values = nn.Parameter(values)
        else:
            self.register_buffer("values", values)

    def forward(self, z: Float[Tensor, "B L"], keys: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B N C"]:
        return self.values.to(z.dtype).expand(len(z), -1, -1)


class RandomSet(nn.Module):
    """scale · N(0, 1), drawn for each sample by its key alone, so that no sample sees who shares its batch (iDSPN).

    Without keys, training draws fresh ones and evaluation uses the same set for all. A mask of its own value can be
    given; otherwise it is drawn like every feature.
    """

    def __init__(self, size: int, features: int, mask: float | None, drawn_mask: bool, scale: float, seed: int):
        super().__init__()
        self.shape = (size, features + drawn_mask)
        self.mask, self.scale, self.seed = mask, scale, seed

    def forward(self, z: Float[Tensor, "B L"], keys: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B N C"]:
        if keys is None and self.training:
            keys = torch.randint(2**62, (len(z),), device=z.device)
        elif keys is None:
            keys = torch.zeros(len(z), dtype=torch.long, device=z.device)
        values = self.scale * keyed_normal(keys, self.shape, self.seed).to(z)
        if self.mask is None:
            return values
        return torch.cat([values, torch.full_like(values[..., :1], self.mask)], dim=-1)


class PredictedSet(nn.Module):
    """An MLP's guess from z, which the inner loop then refines (section 6 of the paper); masks start around `mask`."""

    def __init__(self, latent: int, size: int, features: int, mask: float | None, hidden: Sequence[int]):
        super().__init__()
        self.size, self.mask = size, mask
        self.guess = MLP(latent, hidden, size * (features + (mask is not None)))

    def forward(self, z: Float[Tensor, "B L"], keys: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B N C"]:
        values = self.guess(z).unflatten(1, (self.size, -1))
        if self.mask is None:
            return values
        return torch.cat([values[..., :-1], values[..., -1:] + self.mask], dim=-1)

    @torch.no_grad()
    def begin_with(self, values: Float[Tensor, "N C"]) -> None:
        """Guess this set for every z, until training says more."""
        last = self.guess[-1]
        assert isinstance(last, nn.Linear)
        if len(values) != self.size or values.numel() != last.out_features:
            raise ValueError(f"the guess has {last.out_features} numbers, the initial set {values.numel()}")
        values = values.clone()
        if self.mask is not None:
            values[:, -1] -= self.mask
        last.weight.zero_()
        last.bias.copy_(values.flatten())


def keyed_normal(keys: Int[Tensor, " B"], shape: tuple[int, ...], seed: int = 0) -> Tensor:
    """Normal numbers (B, *shape) that are a function of (seed, key, place) alone, float64 on the CPU.

    Two uniform numbers a place from a 64-bit mixing function, then Box and Muller's transform. Not every device has
    float64, and the same numbers must come out for each.

    >>> a = keyed_normal(torch.tensor([7, 8]), (3,))
    >>> bool((a[1] == keyed_normal(torch.tensor([8]), (3,))[0]).all())
    True
    """
    keys, count = keys.cpu(), math.prod(shape)
    places = torch.arange(2 * count)
    offset = (seed * 0x632BE59BD9B4E019 + 2**63) % 2**64 - 2**63  # as 64-bit integers wrap around
    bits = _mix(_mix(keys + offset)[:, None] + places * 0x1E3779B97F4A7C15)
    uniform = ((bits >> 11) & (2**53 - 1)).double() * 2.0**-53  # [0, 1)
    u, v = uniform.view(len(keys), 2, count).unbind(1)
    normal = (-2 * torch.log1p(-u)).sqrt() * torch.cos(2 * torch.pi * v)
    return normal.view(len(keys), *shape)


def _mix(x: Tensor) -> Tensor:
    """A bijection of 64-bit integers that scatters neighbors (products wrap around; shifts are logical)."""
    for shift, factor in ((30, 0x3F58476D1CE4E5B9), (27, 0x14D049BB133111EB)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return x ^ ((x >> 31) & ((1 << 33) - 1))
