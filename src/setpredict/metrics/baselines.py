"""Trivial predictions from the training sets alone, without the input: what a model that has learned anything beats."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from setpredict.core import rng
from setpredict.losses import SetLoss
from setpredict.sets import Sets

CONSTANT = "best constant set"
MEAN = "mean prediction"
RANDOM = "random training set"
Baseline = Callable[[Int[Tensor, " B"]], Sets]
"""From the samples' numbers to a predicted set each."""

CANDIDATES, COMPARED, STEPS = 32, 128, 60
"""Training sets that are tried as the constant set, those that it is compared with, and steps of Adam after that …"""
WORK = 5e8
"""… unless that is more work than this: comparing two sets of N elements is N^2.5, in a few seconds."""
RATE = 0.02
"""The learning rate of these steps, which falls to 0."""


def baselines(training: Sets, set_loss: SetLoss, variable: bool, seed: int = 0) -> Mapping[str, Baseline]:
    """The three trivial predictions by name: the best constant set, the mean prediction, a random training set.

    Args:
        training: Some training sets.
        set_loss: What the constant set minimizes.
        variable: Whether sets differ in size; otherwise every element of a prediction is present.
        seed: Of the random training sets, which differ between samples.
    """
    constant, mean = best_constant(training, set_loss, variable), mean_prediction(training, variable)
    return {
        CONSTANT: lambda index: _repeated(constant, len(index)),
        MEAN: lambda index: _repeated(mean, len(index)),
        RANDOM: lambda index: random_training_sets(training, index, seed),
    }


def best_constant(training: Sets, set_loss: SetLoss, variable: bool) -> Sets:
    """The set (a batch of one) with the smallest mean loss to the training sets.

    It starts as the best of the training sets themselves and is improved by gradient descent.
    """
    most = (CANDIDATES + STEPS) * COMPARED * training.elements.shape[1] ** 2.5
    part = min(1.0, (WORK / max(most, 1.0)) ** 0.5)
    compared = training[: max(8, round(part * COMPARED))]
    candidates, steps = training[: max(8, round(part * CANDIDATES))], max(20, round(part * STEPS))

    def loss(one: Sets) -> Tensor:
        return set_loss(_repeated(one, len(compared)), compared).mean()

    with torch.no_grad():
        losses = torch.stack([loss(_soft(candidates[i])) for i in range(len(candidates))])
    best = _soft(candidates[int(losses.argmin())])
    smallest, elements, mask = float(losses.min()), best.elements.clone(), best.mask.clone()
    optimizer = torch.optim.Adam([elements.requires_grad_(), mask.requires_grad_(variable)], lr=RATE)
    with torch.enable_grad():
        for step in range(steps + 1):
            now = Sets(elements, mask.clamp(0, 1) if variable else mask)
            value = loss(now)
            if value.item() < smallest:
                smallest, best = value.item(), Sets(now.elements.detach().clone(), now.mask.detach().clone())
            if step == steps or not value.requires_grad:
                break
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            optimizer.param_groups[0]["lr"] = RATE * (1 - step / steps)
            with torch.no_grad():
                mask.clamp_(0, 1)
    return best


def mean_prediction(training: Sets, variable: bool) -> Sets:
    """The mean element of the training data in every place (a batch of one); masks are the share of sets with it.

    >>> mean_prediction(Sets.from_list([[[0.0], [1.0]], [[2.0]]]), variable=True)
    Sets(1 sets of up to 2 elements with 1 features, sizes 1 to 1)
    """
    N, present = training.elements.shape[1], training.elements[training.mask > 0.5]
    mean = present.mean(dim=0) if len(present) else training.elements.new_zeros(training.elements.shape[2])
    share = (training.sizes[:, None] > torch.arange(N)).to(mean.dtype).mean(dim=0)  # (N,)
    return Sets(mean.repeat(1, N, 1), share[None] if variable else torch.ones_like(share)[None])


def random_training_sets(training: Sets, index: Int[Tensor, " B"], seed: int) -> Sets:
    """A training set for each sample, which depends on the seed and the sample's number alone."""
    keys = rng.item_keys(rng.key(seed, "baseline"), index.cpu().numpy().astype(np.int64))
    chosen = (rng.uniform(keys, 1)[:, 0] * len(training)).astype(np.int64)
    return _soft(training[torch.from_numpy(chosen)])


def _repeated(one: Sets, count: int) -> Sets:
    """A batch of one as a batch of `count` equal sets."""
    return Sets(one.elements.expand(count, -1, -1), one.mask.expand(count, -1))


def _soft(sets: Sets) -> Sets:
    """The mask as numbers, as in predictions."""
    return Sets(sets.elements, sets.mask.to(sets.elements.dtype))
