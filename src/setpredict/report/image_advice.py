"""Settings that fit a data set of images: from the size, the number and the crowding of its objects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from setpredict.config import InputConfig
from setpredict.data.task import SetTask
from setpredict.encoders.images.dense import assign_cells

SAMPLES = 512
"""Training images to look at."""
AT_ONCE = 16
"""How many of them are compared at a time, object by object."""
SMALL = 6.0
"""Objects of fewer pixels than this are hard to see."""
CROWDED = 0.02
"""The share of objects hidden in another one's cell that is worth a finer map."""
FEW = 1000
"""With fewer training images than this, a network learns them by heart."""


@dataclass(frozen=True)
class Crowding:
    """How a feature map of some stride fits the objects."""

    stride: int
    """Pixels per cell."""
    lost: float
    """The share of objects whose center is in the same cell as that of a larger one."""


def image_advice(task: SetTask) -> list[str]:
    """One sentence per finding, each with the option to set; empty where no dense head can be trained."""
    if not task.has_centers or not len(task.train):
        return []
    mask, centers, sizes = _objects(task)
    if not bool(mask.any()):
        return []
    found = _size_advice(task, float((sizes[mask] * task.input_size).median()))
    coarse, *finer = (crowding(mask, centers, sizes, task.input_size, stride) for stride in (InputConfig().stride, 4))
    if coarse.lost > 0:
        text = f"{coarse.lost:.1%} of the objects share a cell of the feature map with a larger one"
        better = finer[0].lost < coarse.lost / 1.5 and coarse.lost > CROWDED
        found.append(f"{text}; with --input.stride 4 it would be {finer[0].lost:.1%}." if better else f"{text}.")
    if len(task.train) < FEW:
        few = f"{len(task.train)} training images are few: keep augmentation on"
        found.append(f"{few}; weights from ImageNet (--input.kind resnet --input.weights FILE) help on photographs.")
    return found


def _size_advice(task: SetTask, pixels: float) -> list[str]:
    """On objects that are so wide in the median; points have no size."""
    if task.kind == "points":
        return [f"Up to {task.max_size} points per image."]
    found = [
        f"Objects are {pixels:.0f} pixels wide in the median at {task.input_size}×{task.input_size}, "
        f"up to {task.max_size} per image."
    ]
    if pixels < SMALL:
        wanted = min(512, 2 ** int(np.ceil(np.log2(task.input_size * 2 * SMALL / max(pixels, 0.1)))))
        found.append(f"That is small: try --data.size {wanted}.")
    return found


def crowding(mask: Tensor, centers: Tensor, sizes: Tensor, image_size: int, stride: int) -> Crowding:
    """The share of the objects that a dense head on a map of this stride cannot see."""
    side = -(-image_size // stride)
    parts = zip(mask.split(AT_ONCE), centers.split(AT_ONCE), sizes.split(AT_ONCE))
    kept = sum(len(assign_cells(*part, side, side).element) for part in parts)
    return Crowding(stride, 1 - kept / max(int(mask.sum()), 1))


def _objects(task: SetTask) -> tuple[Tensor, Tensor, Tensor]:
    """Which elements exist, their centers and their sizes, as fractions of the image, for some training images."""
    chosen = np.unique(np.linspace(0, len(task.train) - 1, min(SAMPLES, len(task.train))).astype(np.int64))
    parts = [task.train.batch(chosen[i : i + 64], 0) for i in range(0, len(chosen), 64)]
    centers = torch.cat([b.centers for b in parts if b.centers is not None])
    mask = torch.cat([b.target.mask for b in parts]) > 0.5
    return mask, centers[..., :2], centers[..., 2]
