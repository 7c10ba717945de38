"""Optimal one-to-one assignment for a batch of cost matrices: indices only, no gradients."""

from __future__ import annotations

from typing import Any, NoReturn, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from setpredict.core.errors import NotFinite
from setpredict.core.threads import parallel_for
from setpredict.matching import assignment_kernels

MIN_WORK = 1 << 17
"""Steps of the solver per thread; with fewer, another thread costs more than it saves."""


@torch.no_grad()
def assign(
    costs: Float[Tensor, "P N M"],
    rows: Bool[Tensor, "P N"] | None = None,
    columns: Bool[Tensor, "P M"] | None = None,
) -> Int[Tensor, "P M"]:
    """The row assigned to each column, each row at most once, at the lowest total cost.

    Only present rows and columns take part (None: all); an absent column gets −1. There must be at least as many rows
    as columns. The total is min over injections π of Σ_j costs[π(j), j]; ties are broken arbitrarily.

    >>> assign(torch.tensor([[[4.0, 1.0], [2.0, 5.0], [0.5, 9.0]]]))
    tensor([[2, 0]])
    """
    P, N, M = costs.shape
    for name, mask, shape in (("rows", rows, (P, N)), ("columns", columns, (P, M))):
        if mask is not None and mask.shape != shape:  # the kernel would read what is not theirs
            raise ValueError(f"{name} must have shape {shape}, got {tuple(mask.shape)}")
    costs = costs if costs.dtype in (torch.float32, torch.float64) else costs.float()  # the solver has no others
    answer = torch.empty(P, M, dtype=torch.long)
    status = torch.empty(P, dtype=torch.uint8)
    no_mask = torch.zeros(0, 0, dtype=torch.bool)
    tensors = (costs, no_mask if rows is None else rows, no_mask if columns is None else columns)
    arrays: Any = [t.detach().cpu().contiguous().numpy() for t in tensors]
    outputs, run = (answer.numpy(), status.numpy()), cast(Any, assignment_kernels.assign)
    min_items = max(1, MIN_WORK // max(N * M * M, 1))
    parallel_for(P, lambda start, stop, _: run(*arrays, *outputs, start, stop), min_items)
    if bool(status.any()):
        _raise_error(costs, rows, columns, int(status.nonzero()[0]))
    return answer.to(costs.device)


def _raise_error(costs: Tensor, rows: Tensor | None, columns: Tensor | None, p: int) -> NoReturn:
    """Say why problem p has no solution."""
    bad = ~torch.isfinite(costs[p])
    if bool(bad.any()):
        i, j = bad.nonzero()[0].tolist()
        raise NotFinite(f"cost matrix {p} holds {costs[p, i, j].item()} at row {i}, column {j}")
    n = costs.shape[1] if rows is None else int(rows[p].sum())
    m = costs.shape[2] if columns is None else int(columns[p].sum())
    raise ValueError(f"cost matrix {p} has {n} rows for {m} columns, expected at least one row per column")
