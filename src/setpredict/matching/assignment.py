"""Optimal one-to-one assignment for a batch of cost matrices: indices only, no gradients."""

from __future__ import annotations

from typing import Any, NoReturn, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from setpredict.matching import assignment_kernels
from setpredict.sets import NotFinite
from setpredict.core.threads import parallel_for

WORTH = 1 << 17  # steps of the solver that a further thread must have to do, or it costs more than it saves


@torch.no_grad()
def assign(
    costs: Float[Tensor, "P N M"],
    rows: Bool[Tensor, "P N"] | None = None,
    columns: Bool[Tensor, "P M"] | None = None,
) -> Int[Tensor, "P M"]:
    """For every column the row that serves it, each row at most once, at the least total cost.

    Only the rows and columns present take part; an absent column gets −1. There must be at least as many rows as
    columns. The total is what min over injections π of Σ_j costs[π(j), j] is; ties are broken arbitrarily.

    >>> assign(torch.tensor([[[4.0, 1.0], [2.0, 5.0], [0.5, 9.0]]]))
    tensor([[2, 0]])
    """
    P, N, M = costs.shape
    costs = costs if costs.dtype in (torch.float32, torch.float64) else costs.float()  # the solver knows no others
    answer = torch.empty(P, M, dtype=torch.long)
    state = torch.empty(P, dtype=torch.uint8)
    everything = torch.zeros(0, 0, dtype=torch.bool)
    tensors = (costs, everything if rows is None else rows, everything if columns is None else columns)
    arrays: Any = [t.detach().cpu().contiguous().numpy() for t in tensors]
    found, run = (answer.numpy(), state.numpy()), cast(Any, assignment_kernels.assign)
    parallel_for(P, lambda first, last, _: run(*arrays, *found, first, last), least=max(1, WORTH // max(N * M * M, 1)))
    if bool(state.any()):
        _refuse(costs, rows, columns, int(state.nonzero()[0]))
    return answer.to(costs.device)


def _refuse(costs: Tensor, rows: Tensor | None, columns: Tensor | None, p: int) -> NoReturn:
    bad = ~torch.isfinite(costs[p])
    if bool(bad.any()):
        i, j = bad.nonzero()[0].tolist()
        raise NotFinite(f"cost matrix {p} holds {costs[p, i, j].item()} at row {i}, column {j}")
    n = costs.shape[1] if rows is None else int(rows[p].sum())
    m = costs.shape[2] if columns is None else int(columns[p].sum())
    raise ValueError(f"problem {p}: {m} columns cannot each get a row of their own from {n} rows")
