"""The dense head: per cell of a feature map, is an object's center here, and which element is it?

It gives an image encoder a gradient at every place from the first step on, and its best cells are a predicted set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from setpredict.encoders.mlp import MLP
from setpredict.encoders.precision import full_precision
from setpredict.sets import Sets

PRIOR = 0.02
"""Presence of every cell before training: most cells are empty."""
SAME_BOX, SAME_PLACE = 0.5, 0.7
"""Two cells mean the same object if their boxes overlap by more than this IoU, or their centers are closer than this,
in cells; the less certain one is dropped, and its presence added to that of the other."""


@dataclass(frozen=True)
class ElementLayout:
    """What the D features of an element mean."""

    features: int
    """D."""
    place: Literal["box", "point", "none"] = "none"
    """Which features are places in the image: the first four (left, top, right, bottom), the first two (x, y), or none;
    as fractions of its width and height."""
    groups: tuple[tuple[int, int], ...] = ()
    """One-hot groups, as feature ranges [start, stop)."""


class DenseOutput(NamedTuple):
    """What the head says of every cell."""

    logits: Float[Tensor, "B h w"]
    """Of the presence of an object's center."""
    offsets: Float[Tensor, "B h w 2"]
    """Where in the cell the center is, in cells from its middle."""
    values: Float[Tensor, "B h w D"]
    """The element: box sizes as logarithms, groups as logits, places in the image not at all (`offsets` has them)."""


class DenseHead(nn.Module):
    """A feature map (B, C, h, w) to a presence and an element per cell.

    Args:
        channels: C.
        layout: What the features of an element mean.
        hidden: Width of the head's hidden layer.

    >>> head = DenseHead(8, ElementLayout(features=4, place="box"))
    >>> head(torch.rand(2, 8, 5, 5)).values.shape
    torch.Size([2, 5, 5, 4])
    """

    def __init__(self, channels: int, layout: ElementLayout, hidden: int = 128):
        super().__init__()
        self.layout = layout
        self.network = MLP(channels, [hidden], 3 + layout.features)
        last = self.network[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.weight.mul_(0.1)
            last.bias[0] = torch.tensor(PRIOR).logit()

    def forward(self, features: Float[Tensor, "B C h w"]) -> DenseOutput:
        x = self.network(features.permute(0, 2, 3, 1))  # (B, h, w, 3 + D)
        x = full_precision(x)  # half precision would round positions to 1/256 of the image
        return DenseOutput(x[..., 0], x[..., 1:3], x[..., 3:])

    def elements(self, output: DenseOutput) -> Float[Tensor, "B h w D"]:
        """The elements of all cells, as the data has them."""
        parts, values, D = [], output.values, self.layout.features
        middle = centers_of(output)  # (B, h, w, 2)
        if self.layout.place == "box":
            per_cell = values.new_tensor([values.shape[2], values.shape[1]])
            largest = max(4.0, math.log(2 * max(values.shape[1:3])))  # twice the image; exp must not overflow
            size = values[..., 2:4].clamp(max=largest).exp() / per_cell
            parts += [middle - size / 2, middle + size / 2]
        elif self.layout.place == "point":
            parts.append(middle)
        at = sum(part.shape[-1] for part in parts)
        for start, stop in sorted(self.layout.groups):
            parts += [values[..., at:start], values[..., start:stop].softmax(dim=-1)]
            at = stop
        return torch.cat([*parts, values[..., at:D]], dim=-1)

    def loss(
        self, output: DenseOutput, target: Sets, centers: Float[Tensor, "B N 2"], sizes: Float[Tensor, "B N"]
    ) -> Float[Tensor, " B"]:
        """The loss of every image: cross-entropy of the presence, Huber of numbers and cross-entropy of groups.

        `centers` are the places of the elements in the image, from 0 to 1, and `sizes` how large they look there, as a
        fraction of its side. Of two elements in one cell the larger one counts.
        """
        h, w = output.logits.shape[1:]
        found = assign_cells(target.mask.bool(), centers, sizes, h, w)
        count = found.sample.new_zeros(len(target)).index_add(0, found.sample, torch.ones_like(found.sample))
        share = 1 / count.clamp(min=1).to(output.logits.dtype)  # (B,)
        loss = presence_loss(output.logits, found) * share
        if len(found.sample):
            at = found.sample, found.row, found.column
            wanted = target.elements[found.sample, found.element]  # (M, D)
            inside = centers[found.sample, found.element].clamp(0, 1 - 1e-6) * centers.new_tensor([w, h]) % 1 - 0.5
            each = _huber(output.offsets[at], inside).sum(dim=1) + self._element_loss(output.values[at], wanted, h, w)
            loss = loss.index_add(0, found.sample, each * share[found.sample])
        return loss

    def _element_loss(self, values: Tensor, wanted: Tensor, h: int, w: int) -> Float[Tensor, " M"]:
        """Huber of the numbers (of the logarithm of box sizes in cells) and cross-entropy of the groups, summed."""
        at, loss = {"box": 4, "point": 2, "none": 0}[self.layout.place], values.new_zeros(len(values))
        if self.layout.place == "box":
            size = ((wanted[:, 2:4] - wanted[:, :2]) * wanted.new_tensor([w, h])).clamp(min=1e-2).log()
            loss = _huber(values[:, 2:4], size).sum(dim=1)
        for start, stop in [*sorted(self.layout.groups), (self.layout.features, self.layout.features)]:
            loss = loss + _huber(values[:, at:start], wanted[:, at:start]).sum(dim=1)
            if stop > start:
                labels = wanted[:, start:stop].argmax(dim=1)
                loss = loss + F.cross_entropy(values[:, start:stop], labels, reduction="none")
            at = stop
        return loss

    def proposals(self, output: DenseOutput, count: int) -> Sets:
        """The `count` best cells as a set, one per object.

        The presences of all cells that mean the same object are added up to its mask: where its center is uncertain,
        each of them is small, but together they are the probability that the object is there. A cell that means the
        same as any better one is left out, also if that one is left out itself; its presence is then lost.
        """
        logits = output.logits.flatten(1)  # (B, h·w); of probabilities, the most certain ones would all be 1
        logits, index = logits.topk(min(4 * count + 16, logits.shape[1]), dim=1)  # (B, K), descending
        scores = logits.sigmoid()
        elements, centers = (
            x.flatten(1, 2).gather(1, index[..., None].expand(-1, -1, x.shape[-1]))
            for x in (self.elements(output), centers_of(output))
        )
        with torch.no_grad():
            if self.layout.place == "box":
                same = _overlap(elements[..., :4]) > SAME_BOX  # (B, K, K)
            else:
                apart = (centers[:, :, None] - centers[:, None]) * centers.new_tensor(output.logits.shape[:0:-1])
                same = apart.square().sum(dim=-1) < SAME_PLACE**2
            repeated = same.tril(diagonal=-1).any(dim=2)  # by a better cell, which stands before it
            kept = same.tril(diagonal=-1) & ~repeated[:, None]  # (B, K, K)
            owner = kept.float().argmax(dim=2)  # the best cell that means the same object, (B, K)
            owner = torch.where(kept.any(dim=2), owner, torch.arange(owner.shape[1], device=owner.device))
        total = torch.zeros_like(scores).scatter_add(1, owner, scores).clamp(max=1)
        # Certain objects all have 1: among equal ones the order of their best cells stays, on every machine.
        mask, best = torch.where(repeated, 0, total).sort(dim=1, descending=True, stable=True)
        mask, best = mask[:, :count], best[:, :count]
        chosen = elements.gather(1, best[..., None].expand(-1, -1, elements.shape[-1]))
        return Sets(chosen, mask).pad_to(count)


def centers_of(output: DenseOutput) -> Float[Tensor, "B h w 2"]:
    """The centers that all cells claim, as fractions of the image."""
    h, w = output.logits.shape[1:]
    return cell_centers(h, w, like=output.offsets) + output.offsets / output.offsets.new_tensor([w, h])


def _overlap(boxes: Float[Tensor, "B K 4"]) -> Float[Tensor, "B K K"]:
    """The IoU of every pair of boxes."""
    low = boxes[:, :, None, :2].maximum(boxes[:, None, :, :2])
    high = boxes[:, :, None, 2:].minimum(boxes[:, None, :, 2:])
    inner = (high - low).clamp(min=0).prod(dim=-1)
    area = (boxes[..., 2:] - boxes[..., :2]).prod(dim=-1)
    return inner / (area[:, :, None] + area[:, None] - inner).clamp(min=1e-12)


class Cells(NamedTuple):
    """The cells that hold an element, one row each."""

    sample: Int[Tensor, " M"]
    row: Int[Tensor, " M"]
    column: Int[Tensor, " M"]
    element: Int[Tensor, " M"]


def assign_cells(
    mask: Bool[Tensor, "B N"], centers: Float[Tensor, "B N 2"], sizes: Float[Tensor, "B N"], h: int, w: int
) -> Cells:
    """The cell that holds each element's center; of several elements in one cell only the largest stays.

    >>> centers = torch.tensor([[[0.1, 0.1], [0.2, 0.2], [0.9, 0.6]]])
    >>> assign_cells(torch.ones(1, 3).bool(), centers, torch.tensor([[0.1, 0.3, 0.2]]), 2, 2).element
    tensor([1, 2])
    """
    N = mask.shape[1]
    column = (centers[..., 0].clamp(0, 1 - 1e-6) * w).long()
    row = (centers[..., 1].clamp(0, 1 - 1e-6) * h).long()
    cell = row * w + column  # (B, N)
    same = (cell[:, :, None] == cell[:, None, :]) & mask[:, None, :]  # (B, N, N)
    index = torch.arange(N, device=mask.device)
    larger = (sizes[:, None, :] > sizes[:, :, None]) | (
        (sizes[:, None, :] == sizes[:, :, None]) & (index[None, None, :] < index[None, :, None])
    )
    keep = mask & ~(same & larger).any(dim=2)
    sample, element = keep.nonzero(as_tuple=True)
    return Cells(sample, row[sample, element], column[sample, element], element)


def presence_loss(logits: Float[Tensor, "B h w"], found: Cells) -> Float[Tensor, " B"]:
    """The binary cross-entropy, summed over the cells; no other weights, so that presences are probabilities."""
    wanted = torch.zeros_like(logits)
    wanted[found.sample, found.row, found.column] = 1
    return F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").flatten(1).sum(dim=1)


def cell_centers(h: int, w: int, like: Tensor) -> Float[Tensor, "h w 2"]:
    """The center (x, y) of every cell, from 0 to 1."""
    x = (torch.arange(w, device=like.device, dtype=like.dtype) + 0.5) / w
    y = (torch.arange(h, device=like.device, dtype=like.dtype) + 0.5) / h
    return torch.stack([x[None, :].expand(h, w), y[:, None].expand(h, w)], dim=-1)


def _huber(a: Tensor, b: Tensor) -> Tensor:
    return F.smooth_l1_loss(a, b, reduction="none", beta=0.1)
