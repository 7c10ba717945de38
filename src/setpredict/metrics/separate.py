"""Metrics with different settings side by side in torchmetrics' MetricCollection."""

from __future__ import annotations

from itertools import count

import torch
from torchmetrics import Metric

_numbers = count()


def keep_separate(metric: Metric) -> None:
    """Give a metric a state that no other has.

    Of metrics whose states are equal after the first batch, a MetricCollection updates only one from then on; those
    with different thresholds or losses can be equal by chance.
    """
    metric.add_state("number", torch.tensor(next(_numbers)), dist_reduce_fx="max")
