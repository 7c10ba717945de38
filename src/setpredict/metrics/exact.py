"""Elements that consist of categories only: how many are exactly right, and how many sets are."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics import Metric

from setpredict.metrics.candidates import Groups
from setpredict.metrics.separate import keep_separate
from setpredict.sets import Sets


def exact_elements(predicted: Sets, target: Sets, groups: Groups) -> Bool[Tensor, "B N"]:
    """Which predicted elements are right: in every group the category of a true element that no other one has taken.

    >>> two = {"class": (0, 2)}
    >>> predicted = Sets.from_list([[[0.9, 0.1], [0.8, 0.1], [0.2, 0.7]]])
    >>> exact_elements(predicted, Sets.from_list([[[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]]), two)  # one a too many
    tensor([[ True, False,  True]])
    """
    if len(predicted) != len(target):
        raise ValueError(f"{len(predicted)} predicted sets for {len(target)} targets")
    predicted.check_finite("predicted set")
    ours, theirs = _kinds(predicted, groups), _kinds(target, groups)
    same = (ours[:, :, None] == theirs[:, None]).all(dim=-1)  # (B, N, M)
    equal_copy = _copies(ours, predicted)[:, :, None] == _copies(theirs, target)[:, None]
    there = predicted.present[:, :, None] & target.present[:, None]
    return (same & equal_copy & there).any(dim=2)


def _kinds(sets: Sets, groups: Groups) -> Int[Tensor, "B N G"]:
    """The most likely category of each group."""
    return torch.stack([sets.elements[..., start:stop].argmax(dim=-1) for start, stop in groups.values()], dim=-1)


def _copies(kinds: Int[Tensor, "B N G"], sets: Sets) -> Int[Tensor, "B N"]:
    """For each element, how many present elements before it are equal: the i-th copy is matched with the i-th copy."""
    equal = (kinds[:, :, None] == kinds[:, None]).all(dim=-1) & sets.present[:, None]
    return equal.tril(diagonal=-1).sum(dim=2)


class ExactAccuracy(Metric):
    """The fraction of true elements that are predicted exactly, and of sets with every element right and none too many.

    >>> metric = ExactAccuracy({"class": (0, 2)})
    >>> metric.update(Sets.from_list([[[0.9, 0.1], [0.8, 0.1]]]), Sets.from_list([[[1.0, 0.0], [0.0, 1.0]]]))
    >>> metric.compute()
    {'element': tensor(0.5000, dtype=torch.float64), 'set': tensor(0., dtype=torch.float64)}
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = True

    right: Tensor
    elements: Tensor
    complete: Tensor
    sets: Tensor

    def __init__(self, groups: Groups, **kwargs) -> None:
        super().__init__(**kwargs)
        self.groups = groups
        for name in ("right", "elements", "complete", "sets"):  # integers: their sums are exact in any order
            self.add_state(name, torch.tensor(0), dist_reduce_fx="sum")
        keep_separate(self)

    def update(self, predicted: Sets, target: Sets, index: Tensor | None = None) -> None:
        """Count a batch of sets; `index` is ignored."""
        right = exact_elements(predicted, target.to(predicted.elements.device), self.groups).sum(dim=1).to(self.device)
        sizes = target.sizes.to(self.device)
        self.right += right.sum()
        self.elements += sizes.sum()
        self.complete += ((right == sizes) & (predicted.sizes.to(self.device) == sizes)).sum()
        self.sets += len(sizes)

    def compute(self) -> dict[str, Float[Tensor, ""]]:
        """The fractions of elements as `element` and of sets as `set`; NaN without any."""
        right, elements, complete, sets = (
            x.cpu().double() for x in (self.right, self.elements, self.complete, self.sets)
        )
        return {"element": right / elements, "set": complete / sets}
