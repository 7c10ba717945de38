"""How good predicted sets are: average precision, set distances, set sizes; pure functions and metrics over ranks."""

from setpredict.metrics.average_precision import (
    box_average_precision,
    pooled_average_precision,
    state_average_precision,
    true_positives,
)
from setpredict.metrics.candidates import CLEVR_GROUPS, box_candidates, box_iou, state_candidates
from setpredict.metrics.detection import BoxAveragePrecision, StateAveragePrecision
from setpredict.metrics.distance import (
    SetDistance,
    chamfer_distance,
    hungarian_distance,
)
from setpredict.metrics.set_size import SetSizeAccuracy, set_size_accuracy, set_size_error, size_differences

__all__ = [
    "CLEVR_GROUPS",
    "BoxAveragePrecision",
    "SetDistance",
    "SetSizeAccuracy",
    "StateAveragePrecision",
    "box_average_precision",
    "box_candidates",
    "box_iou",
    "chamfer_distance",
    "hungarian_distance",
    "pooled_average_precision",
    "set_size_accuracy",
    "set_size_error",
    "size_differences",
    "state_average_precision",
    "state_candidates",
    "true_positives",
]
