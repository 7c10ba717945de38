"""How far predicted sets are from their targets: set losses as numbers to report."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import Metric

from setpredict.losses import SetLoss
from setpredict.losses.outer import named_set_loss
from setpredict.metrics.rows import as_rows, ensure_rows, join_rows
from setpredict.metrics.separate import keep_separate
from setpredict.sets import Sets


class SetDistance(Metric):
    """The mean of `chamfer_loss`, `hungarian_loss` or your own set loss over all sets of all batches and ranks.

    The defaults of the named losses give the paper's unit on MNIST.

    >>> metric = SetDistance("chamfer", masks="filter")
    >>> metric.update(Sets.from_list([[[0.0], [1.0]]]), Sets.from_list([[[0.0], [0.5]]]))
    >>> metric.compute()  # half of 0.5² / 2, in both directions
    tensor(0.1250, dtype=torch.float64)
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = False
    rows: list[Tensor]

    def __init__(self, loss: SetLoss | Literal["chamfer", "hungarian"], **options) -> None:
        """`options` are passed to the loss: cost, masks, mask_weight of the named ones."""
        super().__init__()
        self.loss: SetLoss = partial(named_set_loss(loss), **options)
        self.add_state("rows", default=[], dist_reduce_fx="cat")  # the distance of every set
        keep_separate(self)

    def update(self, predicted: Sets, target: Sets, index: Tensor | None = None) -> None:
        """Add a batch of sets; `index` is ignored."""
        self.rows.append(as_rows(self.device, self.loss(predicted, target)))  # (B, 1)

    def compute(self) -> Float[Tensor, ""]:
        """The mean over all sets, rounded once: the same bits for any order of sets and number of ranks.

        NaN without sets.
        """
        values = join_rows(self.rows, columns=1).flatten().tolist()
        return torch.tensor(math.fsum(values) / len(values) if values else math.nan, dtype=torch.float64)

    def sync(self, *args, **kwargs) -> None:
        ensure_rows(self.rows, columns=1, device=self.device)
        super().sync(*args, **kwargs)
