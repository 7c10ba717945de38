"""Optimal one-to-one assignment for a batch of cost matrices: indices only, no gradients."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from setpredict.sets import NotFinite


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
    bad = ~torch.isfinite(costs).flatten(1).all(dim=1)
    if bool(bad.any()):
        p = int(bad.nonzero()[0])
        where = tuple((~torch.isfinite(costs[p])).nonzero()[0].tolist())
        raise NotFinite(f"cost matrix {p} holds {costs[p][where].item()} at row {where[0]}, column {where[1]}")
    P, N, M = costs.shape
    matrices = costs.cpu().numpy()
    answer = torch.full((P, M), -1, dtype=torch.long)
    result = answer.numpy()
    if rows is None and columns is None:
        if N < M:
            raise ValueError(f"{M} columns cannot each get a row of their own from {N} rows")
        for p in range(P):
            r, c = linear_sum_assignment(matrices[p])
            result[p, c] = r
        return answer.to(costs.device)
    present_rows = (torch.ones(P, N) if rows is None else rows).bool().cpu().numpy()
    present_columns = (torch.ones(P, M) if columns is None else columns).bool().cpu().numpy()
    for p in range(P):
        at_r, at_c = present_rows[p].nonzero()[0], present_columns[p].nonzero()[0]
        if len(at_r) < len(at_c):
            raise ValueError(f"problem {p}: {len(at_c)} columns cannot each get a row of their own from {len(at_r)}")
        r, c = linear_sum_assignment(matrices[p][at_r[:, None], at_c])
        result[p, at_c[c]] = at_r[r]
    return answer.to(costs.device)
