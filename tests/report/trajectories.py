"""Batches, and trajectories that end at their targets."""

from __future__ import annotations

import numpy as np
import torch

from setpredict.data.task import Batch, SetTask
from setpredict.sets import Prediction


def batch_of(task: SetTask, count: int = 4) -> Batch:
    return task.val.batch(np.arange(count), 0)


def trajectory_to(batch: Batch, steps: int = 2) -> Prediction:
    """From noise to the target in equal steps; the last set is the target."""
    target = batch.target
    noise = torch.rand(target.elements.shape, generator=torch.Generator().manual_seed(0))
    parts = torch.linspace(0, 1, steps + 1)[:, None, None, None]
    elements = parts * target.elements + (1 - parts) * noise
    mask = parts[..., 0] * target.mask.float() + (1 - parts[..., 0]) * 0.5
    return Prediction(elements, mask, repr_loss=(1 - parts[:, :, 0, 0]).expand(steps + 1, len(batch)) + 1e-6)
