"""Augmentation of images: flip, scale, crop and color, with boxes and points that follow or leave."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from setpredict.config import AugmentConfig
from setpredict.data.batch import AugmentedSplit, Batch, Split
from setpredict.sets import Sets

VISIBLE = 0.4
"""A box stays if at least this part of its area is inside the image."""
NUMBERS = 12
"""Random numbers per sample: seven for the view, five for the color."""


class View(NamedTuple):
    """Which part of each image becomes the new one: a window, mirrored or not."""

    corner: Float[Tensor, "B 2"]
    """Left and top of the window, as fractions of the image; it may reach beyond it."""
    size: Float[Tensor, "B 2"]
    """Width and height of the window."""
    flip: Bool[Tensor, "B 2"]
    """Mirrored left to right, and top to bottom."""

    def whole_unless(self, chosen: Bool[Tensor, " B"]) -> View:
        """The same for the chosen images, and the whole of the others."""
        keep = chosen[:, None]
        return View(self.corner * keep, torch.where(keep, self.size, 1.0), self.flip)


def augmented(split: Split, options: AugmentConfig, kind: str, variable: bool, seed: int) -> AugmentedSplit:
    """A training split of images, different in every epoch; `kind` is what the elements are, and their number may
    change if it is `variable`."""
    change = partial(augment_images, options=options, kind=kind, variable=variable)
    return AugmentedSplit(split, change, NUMBERS, (seed, "augment"))


def augment_images(
    batch: Batch, numbers: Float[Tensor, "B 12"], options: AugmentConfig, kind: str, variable: bool
) -> Batch:
    """Change images at random; elements that are boxes or points (`kind`) follow, for others only the color changes.

    Unless the number of elements is `variable`, an image of which a window would lose some is mirrored at most.
    """
    assert isinstance(batch.input, Tensor)
    images = change_color(batch.input, numbers[:, 7:], options.color)
    if kind not in ("boxes", "points"):
        return Batch(images, batch.target, batch.index, batch.centers)
    view = draw_view(numbers[:, :7], options)
    target, centers = follow(batch.target, kind, view)
    if not variable:
        view = view.whole_unless((target.mask == batch.target.mask).all(dim=1))
        target, centers = follow(batch.target, kind, view, all_stay=True)
    return Batch(crop(images, view), target, batch.index, None if batch.centers is None else centers)


def draw_view(numbers: Float[Tensor, "B 7"], options: AugmentConfig) -> View:
    """A window per sample: its size, its aspect, where it is, and whether it is mirrored."""
    smallest, largest = 1 / options.zoom, options.zoom**0.5
    scale = smallest * (largest / smallest) ** numbers[:, 0:1]
    aspect = torch.exp((2 * numbers[:, 1:2] - 1) * options.aspect)
    size = torch.cat([scale * aspect, scale / aspect], dim=1)  # (B, 2)
    corner = (1 - size) * numbers[:, 2:4]  # inside the image, or around it if the window is larger
    flips = torch.tensor([options.flip in ("horizontal", "both"), options.flip in ("vertical", "both")])
    return View(corner, size, (numbers[:, 4:6] < 0.5) & flips)


def crop(images: Float[Tensor, "B C H W"], view: View) -> Float[Tensor, "B C H W"]:
    """The windows as images of the same size, bilinear, beyond the edge in the color of the edge."""
    B, _, H, W = images.shape
    axes = []
    for axis, count in ((0, W), (1, H)):
        at = (torch.arange(count, dtype=images.dtype) + 0.5) / count
        at = torch.where(view.flip[:, axis : axis + 1], 1 - at, at)  # (B, count)
        axes.append(2 * (view.corner[:, axis : axis + 1] + view.size[:, axis : axis + 1] * at) - 1)
    grid = torch.stack([axes[0][:, None, :].expand(B, H, W), axes[1][:, :, None].expand(B, H, W)], dim=-1)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def follow(target: Sets, kind: str, view: View, all_stay: bool = False) -> tuple[Sets, Float[Tensor, "B N 3"]]:
    """Boxes or points in the windows, and their centers; what is not visible leaves the set, unless `all_stay`."""
    places = target.elements[..., : 4 if kind == "boxes" else 2]
    moved = torch.cat([_to_window(places[..., i : i + 2], view) for i in range(0, places.shape[-1], 2)], dim=-1)
    if kind == "boxes":
        low, high = moved[..., :2].minimum(moved[..., 2:]), moved[..., :2].maximum(moved[..., 2:])  # a flip swaps sides
        area, moved = (high - low).prod(dim=-1), torch.cat([low, high], dim=-1).clamp(0, 1)
        extent = moved[..., 2:] - moved[..., :2]
        stays = extent.prod(dim=-1) > VISIBLE * area
        centers = torch.cat([(moved[..., :2] + moved[..., 2:]) / 2, extent.prod(dim=-1, keepdim=True).sqrt()], dim=-1)
    else:
        stays = ((moved >= 0) & (moved <= 1)).all(dim=-1)
        centers = F.pad(moved, (0, 1))
    mask = target.mask if all_stay else target.mask & stays
    elements = torch.cat([moved, target.elements[..., moved.shape[-1] :]], dim=-1) * mask[..., None]
    return Sets(elements, mask), centers * mask[..., None]


def _to_window(points: Float[Tensor, "B N 2"], view: View) -> Float[Tensor, "B N 2"]:
    inside = (points - view.corner[:, None]) / view.size[:, None]
    return torch.where(view.flip[:, None], 1 - inside, inside)


def change_color(images: Float[Tensor, "B 3 H W"], numbers: Float[Tensor, "B 5"], strength: float) -> Tensor:
    """Contrast, brightness, saturation and the balance of the channels, each by a factor around 1."""
    if not strength:
        return images
    factor = 1 + strength * (2 * numbers[:, :3, None, None] - 1)  # (B, 3, 1, 1)
    balance = 1 + strength / 3 * (2 * numbers[:, [3, 4], None, None] - 1)  # (B, 2, 1, 1)
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    images = (images - mean) * factor[:, 0:1] + mean * factor[:, 1:2]
    gray = images.mean(dim=1, keepdim=True)
    images = gray + (images - gray) * factor[:, 2:3]
    weights = torch.cat([balance[:, :1], torch.ones_like(balance[:, :1]), balance[:, 1:]], dim=1)
    return (images * weights).clamp(0, 1)
