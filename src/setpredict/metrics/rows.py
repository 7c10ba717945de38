"""Rows of numbers as the state of a metric: kept by each rank, joined over ranks, any number of them on each."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def as_rows(device: torch.device, *columns: Tensor) -> Float[Tensor, "K C"]:
    """Columns of equal length as rows on a device, in float64 (whole numbers are exact up to 2⁵³).

    >>> as_rows(torch.device("cpu"), torch.tensor([1, 2]), torch.tensor([0.5, 0.25]))
    tensor([[1.0000, 0.5000],
            [2.0000, 0.2500]], dtype=torch.float64)
    """
    rows = torch.stack([c.detach().cpu().double().flatten() for c in columns], dim=1)
    return rows.to(device, _dtype(device))


def offer_rows(rows: list[Tensor] | Tensor, columns: int, device: torch.device) -> None:
    """Before ranks exchange rows, give one that has none an empty table of the others' shape and type."""
    if isinstance(rows, list) and not rows:
        rows.append(torch.zeros(0, columns, dtype=_dtype(device), device=device))


def join_rows(rows: list[Tensor] | Tensor, columns: int) -> Float[Tensor, "K C"]:
    """All rows on the CPU: a list of this rank's batches, or one tensor of all ranks once they are exchanged.

    >>> join_rows([], columns=2).shape
    torch.Size([0, 2])
    """
    parts = rows if isinstance(rows, list) else [rows]
    return torch.cat([torch.zeros(0, columns, dtype=torch.float64), *(p.cpu().double() for p in parts)])


def _dtype(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64  # Apple's GPUs have no float64
