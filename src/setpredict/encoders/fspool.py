"""FSPool: featurewise sort pooling, the set encoder's last step in the paper."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from setpredict.core.errors import UserError
from setpredict.encoders.precision import full_precision


class FSPool(nn.Module):
    """Sort every feature on its own over the set, then take a weighted sum over the ranks.

    out[b, c] = Σ_r w_c(r) · sorted(x[b, :, c])[r]. The weight is either piecewise linear in r/(n−1) with `pieces`
    pieces (any set size; initialized from N(0, 1)), or one free number per rank for up to `size` ranks (iDSPN;
    initialized from N(0, 1/size)). With a hard mask, only the elements present are sorted and n is their number; the
    pool of the empty set is 0.

    Args:
        channels: C, the features of an element.
        pieces: Pieces of the piecewise-linear weight.
        size: The largest number of elements, for one free weight per rank instead (None: piecewise linear).
        descending: Sort from the largest value to the smallest.

    >>> pool = FSPool(channels=3)
    >>> x = torch.randn(2, 5, 3)
    >>> torch.allclose(pool(x), pool(x.flip(1)))
    True
    """

    def __init__(self, channels: int, pieces: int = 20, size: int | None = None, descending: bool = True):
        super().__init__()
        if size is None and pieces < 1:
            raise UserError(f"FSPool needs at least one piece, got pieces={pieces}")
        self.pieces, self.size, self.descending = pieces, size, descending
        knots = pieces + 1 if size is None else size
        scale = 1.0 if size is None else size**-0.5
        self.weight = nn.Parameter(torch.randn(channels, knots) * scale)

    def forward(self, x: Float[Tensor, "B N C"], mask: Bool[Tensor, "B N"] | None = None) -> Float[Tensor, "B C"]:
        if mask is None:
            ordered = x.sort(dim=1, descending=self.descending, stable=True).values
            return (ordered * self.rank_weights(x.shape[1])).sum(dim=1)
        last = -torch.inf if self.descending else torch.inf  # padding sorts behind every element
        ordered = x.masked_fill(~mask[..., None], last).sort(dim=1, descending=self.descending, stable=True).values
        n = mask.sum(dim=1)  # (B,)
        present = torch.arange(x.shape[1], device=x.device) < n[:, None]  # (B, N), by rank
        ordered = ordered.masked_fill(~present[..., None], 0)
        weights = self._piecewise(self._ranks(x.shape[1]), n) if self.size is None else self.rank_weights(x.shape[1])
        return (ordered * weights).sum(dim=1)

    def rank_weights(self, n: int) -> Float[Tensor, "n C"]:
        """The weight per rank in a set of n elements."""
        if self.size is None:
            return self._piecewise(self._ranks(n), n)
        if n > self.size:
            raise ValueError(f"FSPool has weights for {self.size} elements, got a set of {n}")
        return self.weight[:, :n].T

    def _ranks(self, n: int) -> Tensor:
        kind = full_precision(self.weight).dtype  # bfloat16 counts to 256
        return torch.arange(n, device=self.weight.device, dtype=kind)

    def _piecewise(self, ranks: Tensor, n: Tensor | int) -> Tensor:
        """Hat functions around the knots, evaluated at rank/(n−1): linear interpolation as one matrix product."""
        last = max(n - 1, 1) if isinstance(n, int) else (n[..., None] - 1).clamp(min=1)
        position = ranks / last * self.pieces  # (..., N)
        knots = self._ranks(self.pieces + 1)
        hats = (1 - (position.clamp(max=self.pieces)[..., None] - knots).abs()).clamp(min=0)  # (..., N, knots)
        return hats.to(self.weight.dtype) @ self.weight.T

    def extra_repr(self) -> str:
        kind = f"pieces={self.pieces}" if self.size is None else f"size={self.size}"
        return f"channels={self.weight.shape[0]}, {kind}, descending={self.descending}"
