"""Rows of numbers as the state of a metric: each rank keeps its own, any number of them; ranks concatenate theirs."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def as_rows(device: torch.device, *columns: Tensor) -> Float[Tensor, "K C"]:
    """Columns of equal length as rows on a device, in float64 (integers are exact up to 2⁵³).

    >>> as_rows(torch.device("cpu"), torch.tensor([1, 2]), torch.tensor([0.5, 0.25]))
    tensor([[1.0000, 0.5000],
            [2.0000, 0.2500]], dtype=torch.float64)
    """
    rows = torch.stack([c.detach().cpu().double().flatten() for c in columns], dim=1)
    return rows.to(device, _dtype(device))


def ensure_rows(rows: list[Tensor] | Tensor, columns: int, device: torch.device) -> None:
    """Before ranks exchange rows, give a rank without any an empty table of the same shape and type as the others."""
    if isinstance(rows, list) and not rows:
        rows.append(torch.zeros(0, columns, dtype=_dtype(device), device=device))


def join_rows(rows: list[Tensor] | Tensor, columns: int) -> Float[Tensor, "K C"]:
    """All rows on the CPU, from a list of this rank's batches or, after the exchange, one tensor of all ranks.

    >>> join_rows([], columns=2).shape
    torch.Size([0, 2])
    """
    parts = rows if isinstance(rows, list) else [rows]
    return torch.cat([torch.zeros(0, columns, dtype=torch.float64), *(p.cpu().double() for p in parts)])


def _dtype(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64  # Apple's GPUs have no float64
