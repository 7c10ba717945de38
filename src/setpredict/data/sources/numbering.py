"""Numbering: count the members of each class, the task of section 4.1 of the iDSPN paper.

The input is a multiset of classes, such as {a, a, b, a}; the output has the numbers 0, 1, 2, … for the members of every
class, in no particular order: {a 0, a 1, b 0, a 2}. Equal inputs must get different outputs, which no function can do
that treats equal elements alike.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from setpredict.core.errors import UserError
from setpredict.core.rng import uniform
from setpredict.data.splits import DrawnSplit
from setpredict.data.task import SetTask
from setpredict.sets import Sets


def numbering(
    n: int = 64, classes: int = 4, seed: int = 0, *, train: int = 64_000, val: int = 1_000, test: int = 1_000
) -> SetTask:
    """Multisets of n one-hot classes, and the same with a one-hot number from 0 to n − 1 behind each class.

    Classes are drawn independently and with equal probabilities. Each training epoch has new multisets.

    >>> task = numbering(n=3, classes=2)
    >>> batch = task.test.batch(np.arange(1), 0)
    >>> [task.describe(element) for element in batch.target.elements[0]]
    ['a 0', 'a 1', 'b 0']
    """
    if n < 1 or classes < 1:
        raise UserError(f"numbering needs at least 1 element and 1 class, got {n} and {classes}")
    draw = partial(draw_numbering, n=n, classes=classes)
    names = tuple(_letters(i) for i in range(classes))
    return SetTask(
        name="numbering",
        input_kind="set",
        input_size=classes,
        max_size=n,
        features=classes + n,
        variable=False,
        kind="vectors",
        feature_names=(*(f"class {name}" for name in names), *(f"number {i}" for i in range(n))),
        groups={"class": (0, classes), "number": (classes, classes + n)},
        categories={"class": names, "number": tuple(map(str, range(n)))},
        train=DrawnSplit(train, (seed, "numbering", "train"), draw),
        val=DrawnSplit(val, (seed, "numbering", "val"), draw),
        test=DrawnSplit(test, (seed, "numbering", "test"), draw),
    )


def draw_numbering(keys: np.ndarray, n: int, classes: int) -> tuple[Sets, Sets]:
    """One multiset per key (B,) as input, and the same with numbers as target."""
    drawn = (uniform(keys, n) * classes).astype(np.int64)  # (B, N)
    one_hot = drawn[:, :, None] == np.arange(classes)  # (B, N, K)
    number = (np.cumsum(one_hot, axis=1) * one_hot).sum(axis=2) - 1  # (B, N), earlier members of the same class
    target = np.concatenate([one_hot, number[:, :, None] == np.arange(n)], axis=2)
    mask = torch.ones(drawn.shape, dtype=torch.bool)
    given, wanted = (torch.from_numpy(x.astype(np.float32)) for x in (one_hot, target))
    return Sets(given, mask), Sets(wanted, mask)


def _letters(i: int) -> str:
    """a … z, aa, ab, …"""
    return (_letters(i // 26 - 1) if i >= 26 else "") + chr(ord("a") + i % 26)
