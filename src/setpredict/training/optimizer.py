"""The learning-rate schedule of the outer optimizer, and the moving average of the weights."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from setpredict.config import TrainConfig


def learning_rate(config: TrainConfig, step: int, done: float) -> float:
    """The learning rate at a step, after a fraction `done` of the training.

    >>> config = TrainConfig(lr=1.0, warmup_steps=10, schedule="cosine")
    >>> [round(learning_rate(config, step, done), 2) for step, done in [(0, 0.0), (4, 0.0), (99, 0.5), (200, 1.0)]]
    [0.1, 0.5, 0.5, 0.0]
    """
    assert config.lr is not None
    rate = config.lr * min(1.0, (step + 1) / (config.warmup_steps or 1))
    if config.schedule == "cosine":
        return rate * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    if config.schedule == "step":
        return rate * 0.1 ** sum(done >= at for at in config.decay_at)
    return rate


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, decay: float, step: int) -> None:
    """average ← d · average + (1 − d) · model, with a smaller d in the first steps; integer buffers are copied.

    The statistics of batch norms are averaged like weights: those of the newest weights do not fit averaged ones.
    """
    decay = min(decay, (1 + step) / (10 + step))
    mean = get_ema_multi_avg_fn(decay)  # all weights in a few calls, which matters on GPUs
    mean(list(average.parameters()), list(model.parameters()), step)
    for ours, theirs in zip(average.buffers(), model.buffers()):
        if ours.is_floating_point():  # what is equal stays, such as a mask of −∞, whose average would be NaN
            ours.copy_(torch.where(ours == theirs, ours, ours.lerp(theirs, 1 - decay)))
        else:
            ours.copy_(theirs)
