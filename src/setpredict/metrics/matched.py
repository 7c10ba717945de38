"""Errors of single elements: predicted and true elements are matched one to one, then compared feature by feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics import Metric

from setpredict.core.errors import UserError
from setpredict.matching import assign
from setpredict.metrics.candidates import Groups
from setpredict.metrics.rows import as_rows, ensure_rows, join_rows
from setpredict.metrics.separate import keep_separate
from setpredict.sets import Sets

FAR = 1e6
"""The cost of leaving a true element without a predicted one: more than any distance in units of the model."""
COSTS_AT_ONCE = 1 << 22
"""How many costs of (predicted, true) pairs exist at a time: 32 MB in float64, with enough sets for several threads."""


@dataclass
class ElementErrors:
    """How far matched elements are apart, in the data's own units, and what was missed."""

    matched: int = 0
    """Pairs of a predicted and a true element."""
    missed: int = 0
    """True elements without a predicted one."""
    surplus: int = 0
    """Predicted elements without a true one."""
    errors: dict[str, float] = field(default_factory=dict)
    """The mean absolute error of each quantity over the pairs; NaN without pairs."""
    accuracy: dict[str, float] = field(default_factory=dict)
    """Per group of categories: the fraction of the pairs whose category is right."""
    confusions: dict[str, list[list[int]]] = field(default_factory=dict)
    """Per group: [true category, predicted category, number of pairs], for those that occur."""


@dataclass(frozen=True)
class Layout:
    """Which features are numbers and which are categories, and what is measured of the numbers."""

    numbers: tuple[int, ...]
    """The features that are numbers, by which elements are matched (none: all features)."""
    names: tuple[str, ...]
    """The name of every feature."""
    groups: Groups
    """One-hot groups by name."""
    scale: tuple[float, ...] | None = None
    """The factor of every feature to the data's own units."""
    distances: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Euclidean distances over several numbers, by name: such as a position."""
    boxes: bool = False
    """Whether the first four features are left, top, right, bottom: center and size are measured too."""

    @property
    def quantities(self) -> tuple[str, ...]:
        """The names of what is measured."""
        sides = ("center", "width", "height") if self.boxes else ()
        return (*self.distances, *sides, *(self.names[i] for i in self.numbers))


def match(predicted: Sets, target: Sets, numbers: Sequence[int] = ()) -> tuple[Int[Tensor, "B M"], Bool[Tensor, "B N"]]:
    """The predicted element of each true one, so that the sum of their Euclidean distances is smallest.

    Predicted elements whose mask exceeds one half take part. As many pairs are made as there are elements on the
    smaller side; a true element without a pair has −1. Also returns which predicted elements are present.

    >>> predicted = Sets(torch.tensor([[[0.0], [1.0], [5.0]]]), torch.tensor([[0.9, 0.8, 0.1]]))
    >>> match(predicted, Sets.from_list([[[0.9], [4.0], [0.1]]]))[0]
    tensor([[ 1, -1,  0]])
    """
    chosen = list(numbers) or slice(None)
    present, wanted = predicted.present.cpu(), target.present.cpu()  # (B, N), (B, M)
    a, b = (s.elements.detach().cpu().double()[..., chosen] for s in (predicted, target))
    (B, N), M = present.shape, wanted.shape[1]
    extra = max([0, *(wanted.sum(dim=1) - present.sum(dim=1)).tolist()])  # rows for true elements without a pair
    rows = F.pad(present, (0, extra), value=True)
    index = torch.empty(B, M, dtype=torch.long)
    step = max(1, COSTS_AT_ONCE // max(1, (N + extra) * M))
    for start in range(0, B, step):
        i = slice(start, start + step)
        distance = torch.cdist(a[i], b[i], compute_mode="donot_use_mm_for_euclid_dist").clamp_(max=FAR / 2)
        index[i] = assign(F.pad(distance, (0, 0, 0, extra), value=FAR), rows[i], wanted[i])  # costs (b, N + extra, M)
    return index.masked_fill(index >= N, -1), present


class MatchedErrors(Metric):
    """`ElementErrors` over all sets of all batches and ranks.

    >>> layout = Layout(numbers=(0,), names=("x", "kind a", "kind b"), groups={"kind": (1, 3)}, scale=(10.0, 1.0, 1.0))
    >>> metric = MatchedErrors(layout)
    >>> target = Sets.from_list([[[0.5, 1.0, 0.0], [0.9, 0.0, 1.0]]])
    >>> metric.update(Sets(torch.tensor([[[0.75, 0.2, 0.8]]]), torch.ones(1, 1)), target)
    >>> errors = metric.compute()
    >>> errors.matched, errors.missed, round(errors.errors["x"], 3), errors.accuracy
    (1, 1, 1.5, {'kind': 1.0})
    """

    full_state_update = False
    is_differentiable = False
    rows: list[Tensor]
    """The sums of the errors in every batch."""
    counts: Tensor

    def __init__(self, layout: Layout, **kwargs) -> None:
        super().__init__(**kwargs)
        self.layout = layout
        self.add_state("rows", default=[], dist_reduce_fx="cat")
        self.add_state("counts", torch.zeros(3, dtype=torch.long), dist_reduce_fx="sum")
        for number, (first, end) in enumerate(layout.groups.values()):
            zeros = torch.zeros(end - first, end - first, dtype=torch.long)
            self.add_state(f"confusion{number}", zeros, dist_reduce_fx="sum")
        keep_separate(self)

    def update(self, predicted: Sets, target: Sets, index: Tensor | None = None) -> None:
        """Add a batch of sets; `index` is ignored."""
        if predicted.elements.shape[2] != target.elements.shape[2]:
            D, E = predicted.elements.shape[2], target.elements.shape[2]
            raise UserError(f"predicted elements have {D} features, the target's have {E}")
        predicted.check_finite("predicted set")
        pairs, present = match(predicted, target, self.layout.numbers)
        sample, true = (pairs >= 0).nonzero().T
        a = predicted.elements.detach().cpu().double()[sample, pairs[sample, true]]  # (K, D)
        b = target.elements.detach().cpu().double()[sample, true]
        missed = int(target.sizes.sum()) - len(sample)
        counts = torch.tensor([len(sample), missed, int(present.sum()) - len(sample)])
        self.counts += counts.to(self.device)
        if self.layout.quantities:
            sums = absolute_errors(a, b, self.layout).sum(dim=0)  # (Q,)
            self.rows.append(as_rows(self.device, *sums.unbind()))
        for number, (first, end) in enumerate(self.layout.groups.values()):
            both = b[:, first:end].argmax(dim=1) * (end - first) + a[:, first:end].argmax(dim=1)
            confusion = cast(Tensor, getattr(self, f"confusion{number}"))
            confusion.view(-1).scatter_add_(0, both.to(self.device), confusion.new_ones(len(both)))

    def compute(self) -> ElementErrors:
        """The means and counts over everything that was added."""
        matched, missed, surplus = self.counts.tolist()
        sums = join_rows(self.rows, len(self.layout.quantities)).sum(dim=0)
        means = (sums / matched if matched else sums * torch.nan).tolist()
        found = ElementErrors(matched, missed, surplus, dict(zip(self.layout.quantities, means)))
        for number, name in enumerate(self.layout.groups):
            confusion = cast(Tensor, getattr(self, f"confusion{number}")).cpu()
            right = int(confusion.diagonal().sum())
            found.accuracy[name] = right / matched if matched else float("nan")
            pairs = confusion.nonzero()
            found.confusions[name] = torch.cat([pairs, confusion[tuple(pairs.T)][:, None]], dim=1).tolist()
        return found

    def sync(self, *args, **kwargs) -> None:
        ensure_rows(self.rows, len(self.layout.quantities), self.device)
        super().sync(*args, **kwargs)


def absolute_errors(a: Float[Tensor, "K D"], b: Float[Tensor, "K D"], layout: Layout) -> Float[Tensor, "K Q"]:
    """The error of each pair for each of the layout's quantities, in the data's own units."""
    if layout.scale is not None:
        factors = a.new_tensor(layout.scale)
        a, b = a * factors, b * factors
    columns = [(a - b)[:, list(over)].norm(dim=1) for over in layout.distances.values()]
    if layout.boxes:
        (center, size), (true_center, true_size) = (((x[:, :2] + x[:, 2:4]) / 2, x[:, 2:4] - x[:, :2]) for x in (a, b))
        columns += [(center - true_center).norm(dim=1), *(size - true_size).abs().unbind(1)]
    columns += [(a - b)[:, i].abs() for i in layout.numbers]
    return torch.stack(columns, dim=1) if columns else a.new_zeros(len(a), 0)
