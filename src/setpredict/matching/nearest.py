"""Nearest neighbors between two batches of sets: indices only, no gradients."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from setpredict.core.threads import parallel_for
from setpredict.matching import nearest_kernels
from setpredict.matching.cost import PairCost

CHUNK = 1 << 24
"""Entries of the cost matrix that exist at once: 64 MB in float32, whatever B, N and T are."""


@torch.no_grad()
def nearest(
    a: Float[Tensor, "P N C"],
    b: Float[Tensor, "P M C"],
    cost: PairCost,
    a_mask: Bool[Tensor, "P N"] | None = None,
    b_mask: Bool[Tensor, "P M"] | None = None,
) -> tuple[Int[Tensor, "P N"], Int[Tensor, "P M"]]:
    """For every a[i] the cheapest present b[j], and for every b[j] the cheapest present a[i].

    Where nothing is present, the index is 0. The cost itself is compared, not the Euclidean distance: the two order
    pairs differently once a difference exceeds 1. Plain costs on a CPU use a kernel, all others are computed in chunks.

    >>> a, b = torch.tensor([[[0.0], [1.0]]]), torch.tensor([[[0.9], [0.2], [0.1]]])
    >>> nearest(a, b, PairCost())
    (tensor([[2, 0]]), tensor([[1, 0, 0]]))
    """
    P, N, M = a.shape[0], a.shape[1], b.shape[1]
    to_b, to_a = a.new_zeros(P, N, dtype=torch.long), a.new_zeros(P, M, dtype=torch.long)
    if N == 0 or M == 0:
        return to_b, to_a
    if cost.is_plain and a.device.type == "cpu" and a.dtype in (torch.float32, torch.float64) and a.dtype == b.dtype:
        no_mask = torch.zeros(0, 0, dtype=torch.bool)
        tensors = (a, b, no_mask if a_mask is None else a_mask, no_mask if b_mask is None else b_mask)
        arrays: Any = [t.detach().contiguous().numpy() for t in tensors]
        run: Any = nearest_kernels.nearest
        outputs = to_b.numpy(), to_a.numpy()
        parallel_for(P, lambda start, stop, _: run(*arrays, cost.kind == "huber", *outputs, start, stop))
        return to_b, to_a
    for i in range(0, P, step := max(1, CHUNK // (N * M))):
        part = slice(i, i + step)
        costs = cost.matrix(a[part], b[part])  # (p, N, M)
        masked = costs if b_mask is None else costs.masked_fill(~b_mask[part, None, :], torch.inf)
        to_b[part] = masked.argmin(dim=2)
        masked = costs if a_mask is None else costs.masked_fill(~a_mask[part, :, None], torch.inf)
        to_a[part] = masked.argmin(dim=1)
    return to_b, to_a
