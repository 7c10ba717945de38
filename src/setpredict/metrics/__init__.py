"""How good predicted sets are: average precision, set distances, set sizes; pure functions and metrics over ranks."""

from setpredict.metrics.average_precision import (
    box_average_precision,
    pooled_average_precision,
    state_average_precision,
)
from setpredict.metrics.candidates import box_candidates, box_iou, state_candidates
from setpredict.metrics.detection import BoxAveragePrecision, StateAveragePrecision
from setpredict.metrics.distance import SetDistance
from setpredict.metrics.set_size import SetSizeAccuracy, size_differences

__all__ = [
    "BoxAveragePrecision",
    "SetDistance",
    "SetSizeAccuracy",
    "StateAveragePrecision",
    "box_average_precision",
    "box_candidates",
    "box_iou",
    "pooled_average_precision",
    "size_differences",
    "state_average_precision",
    "state_candidates",
]
