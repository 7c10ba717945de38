"""Half precision, which autocast brings into a model: where it must not go."""

from __future__ import annotations

import torch
from torch import Tensor

HALF = (torch.float16, torch.bfloat16)


def full_precision(x: Tensor) -> Tensor:
    """x in float32 if it is in half precision; else x itself.

    >>> full_precision(torch.ones(2, dtype=torch.bfloat16)).dtype, full_precision(torch.ones(2).double()).dtype
    (torch.float32, torch.float64)
    """
    return x.float() if x.dtype in HALF else x
