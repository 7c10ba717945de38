"""Where sets are kept after every step of the inner loop: in the unit box, or with probabilities as categories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor


def unit_box(scale: Sequence[float]) -> Callable[[Tensor], Tensor]:
    """Clamp every feature to [0, 1], in the decoder's units."""
    return partial(_clamp, tuple(scale))


def _clamp(scale: tuple[float, ...], elements: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
    if len(set(scale)) <= 1:
        return elements.clamp(0.0, scale[0] if scale else 1.0)
    return elements.clamp(min=0).minimum(elements.new_tensor(scale))


def simplexes(groups: Iterable[tuple[int, ...]]) -> Callable[[Tensor], Tensor]:
    """Project every one-hot group [start, stop) of features onto the probability simplex; others stay as they are."""
    return partial(_project, sorted((start, stop) for start, stop in groups))


def _project(ranges: Sequence[tuple[int, int]], elements: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
    parts, at = [], 0
    for start, stop in ranges:
        parts += [elements[..., at:start], simplex(elements[..., start:stop])]
        at = stop
    return torch.cat([*parts, elements[..., at:]], dim=-1)


def simplex(x: Float[Tensor, "... K"]) -> Float[Tensor, "... K"]:
    """The nearest point of the probability simplex: max(x − t, 0) with the t for which they add up to 1.

    >>> simplex(torch.tensor([2.0, 0.0, -1.0])), simplex(torch.tensor([0.0, 0.0]))
    (tensor([1., 0., 0.]), tensor([0.5000, 0.5000]))
    """
    largest = x.sort(dim=-1, descending=True).values
    excess = largest.cumsum(dim=-1) - 1  # (…, K)
    rank = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)
    count = (largest * rank > excess).sum(dim=-1, keepdim=True).clamp(min=1)  # entries above 0
    return (x - excess.gather(-1, count - 1) / count).clamp(min=0)
