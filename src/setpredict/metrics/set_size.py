"""Whether predicted sets have as many elements as their targets."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric

from setpredict.metrics.separate import keep_separate
from setpredict.sets import Sets


def size_differences(predicted: Sets, target: Sets, threshold: float = 0.5) -> Int[Tensor, " B"]:
    """|Ŷ| − |Y| for each set, where Ŷ are the elements whose mask exceeds `threshold`.

    >>> predicted = Sets(torch.zeros(2, 3, 1), torch.tensor([[0.9, 0.8, 0.7], [0.9, 0.1, 0.2]]))
    >>> target = Sets.from_list([[[0.0]], [[0.0]]])
    >>> size_differences(predicted, target)
    tensor([2, 0])
    """
    if not 0 <= threshold < 1:
        raise ValueError(f"threshold must be at least 0 and below 1, got {threshold}")
    if len(predicted) != len(target):
        raise ValueError(f"{len(predicted)} predicted sets for {len(target)} targets")
    predicted.check_finite("predicted set")
    mask = predicted.mask
    sizes = (mask if mask.dtype == torch.bool else mask > threshold).sum(dim=1)
    return sizes - target.sizes.to(sizes.device)


class SetSizeAccuracy(Metric):
    """The fraction of sets of the right size, and the mean absolute error of the size, over all batches and ranks.

    >>> metric = SetSizeAccuracy()
    >>> metric.update(Sets(torch.zeros(1, 3, 1), torch.tensor([[0.9, 0.8, 0.7]])), Sets.from_list([[[0.0]]]))
    >>> metric.compute()
    {'accuracy': tensor(0., dtype=torch.float64), 'error': tensor(2., dtype=torch.float64)}
    """

    full_state_update = False
    is_differentiable = False

    correct: Tensor
    error: Tensor
    sets: Tensor

    def __init__(self, threshold: float = 0.5, **kwargs) -> None:
        super().__init__(**kwargs)
        self.threshold = threshold
        for name in ("correct", "error", "sets"):  # integers: their sums are exact in any order
            self.add_state(name, torch.tensor(0), dist_reduce_fx="sum")
        keep_separate(self)

    def update(self, predicted: Sets, target: Sets, index: Tensor | None = None) -> None:
        """Count a batch of sets; `index` is ignored."""
        difference = size_differences(predicted, target, self.threshold).to(self.device)
        self.correct += (difference == 0).sum()
        self.error += difference.abs().sum()
        self.sets += len(difference)

    def compute(self) -> dict[str, Float[Tensor, ""]]:
        """The fraction of correct sizes as `accuracy`, the mean absolute difference as `error`; NaN without sets."""
        correct, error, sets = (x.cpu().double() for x in (self.correct, self.error, self.sets))
        return {"accuracy": correct / sets, "error": error / sets}
