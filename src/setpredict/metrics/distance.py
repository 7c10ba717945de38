"""How far predicted sets are from their targets: the set losses as numbers to report."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import Metric

from setpredict.losses import SetLoss, chamfer_loss, hungarian_loss
from setpredict.losses.outer import NAMED
from setpredict.losses.pairs import Masks
from setpredict.matching import PairCost
from setpredict.metrics.rows import as_rows, join_rows, offer_rows
from setpredict.sets import Sets

Cost = PairCost | Literal["huber", "squared"]


@torch.no_grad()
def chamfer_distance(
    predicted: Sets, target: Sets, *, cost: Cost = "huber", masks: Masks = "feature"
) -> Float[Tensor, ""]:
    """The mean of `chamfer_loss` over the sets, in float64; the defaults are the paper's unit on MNIST.

    >>> a, b = Sets.from_list([[[0.0], [0.0], [1.0]]]), Sets.from_list([[[0.0], [1.0], [1.0]]])
    >>> chamfer_distance(a, b)
    tensor(0., dtype=torch.float64)
    """
    return _mean(chamfer_loss(predicted, target, cost=cost, masks=masks))


@torch.no_grad()
def hungarian_distance(
    predicted: Sets, target: Sets, *, cost: Cost = "huber", masks: Masks = "feature"
) -> Float[Tensor, ""]:
    """The mean of `hungarian_loss` over the sets, in float64.

    >>> a, b = Sets.from_list([[[0.0], [0.0], [1.0]]]), Sets.from_list([[[0.0], [1.0], [1.0]]])
    >>> hungarian_distance(a, b)
    tensor(0.0833, dtype=torch.float64)
    """
    return _mean(hungarian_loss(predicted, target, cost=cost, masks=masks))


class SetDistance(Metric):
    """`chamfer_distance` or `hungarian_distance` over all batches and ranks, or the mean of a set loss of your own.

    >>> metric = SetDistance("chamfer", masks="filter")
    >>> metric.update(Sets.from_list([[[0.0], [1.0]]]), Sets.from_list([[[0.0], [0.5]]]))
    >>> metric.compute()  # half of 0.5² / 2, there and back
    tensor(0.1250, dtype=torch.float64)
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = False
    rows: list[Tensor]

    def __init__(self, loss: SetLoss | Literal["chamfer", "hungarian"], **options) -> None:
        """`options` are those of the named loss: cost, masks, mask_weight."""
        super().__init__()
        if isinstance(loss, str) and loss not in NAMED:
            raise ValueError(f"the distance must be chamfer, hungarian or a set loss, got {loss!r}")
        self.loss: SetLoss = partial(NAMED[loss] if isinstance(loss, str) else loss, **options)
        self.add_state("rows", default=[], dist_reduce_fx="cat")  # the distance of every set

    def update(self, predicted: Sets, target: Sets, index: Tensor | None = None) -> None:
        """Add a batch of sets; their numbers `index` play no part."""
        self.rows.append(as_rows(self.device, self.loss(predicted, target)))  # (B,)

    def compute(self) -> Float[Tensor, ""]:
        """The mean over all sets; NaN without sets."""
        return _mean(join_rows(self.rows, columns=1))

    def sync(self, *args, **kwargs) -> None:
        offer_rows(self.rows, columns=1, device=self.device)
        super().sync(*args, **kwargs)


def _mean(values: Tensor) -> Float[Tensor, ""]:
    """The mean, rounded once: the same bits in whatever order and on however many ranks the values came."""
    total = math.fsum(values.flatten().tolist())
    return torch.tensor(total / values.numel() if values.numel() else math.nan, dtype=torch.float64)
