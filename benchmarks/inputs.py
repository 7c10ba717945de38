"""Random data in the shapes of MNIST and CLEVR: speed does not depend on where the points are."""

from __future__ import annotations

import torch
from torch import Tensor

from setpredict.sets import Sets


def digits(count: int, seed: int = 0) -> Sets:
    """Sets of 32 to 342 pixels (row, column)/27, padded to 342."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(32, 343, (count, 1), generator=generator)
    mask = torch.arange(342) < sizes
    pixels = torch.rand(count, 784, generator=generator).argsort(dim=1)[:, :342]
    elements = torch.stack([pixels // 28, pixels % 28], dim=-1) / 27
    return Sets(elements * mask[..., None], mask)


def scenes(count: int, seed: int = 0, size: int = 10) -> Sets:
    """3 to `size` objects of 18 features: a position and four one-hot attributes."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(size) < torch.randint(3, size + 1, (count, 1), generator=generator)
    parts: list[Tensor] = [torch.rand(count, size, 3, generator=generator) * 2 - 1]
    for classes in (2, 8, 3, 2):
        value = torch.randint(classes, (count, size), generator=generator)
        parts.append(torch.nn.functional.one_hot(value, classes).float())
    return Sets(torch.cat(parts, dim=-1) * mask[..., None], mask)
