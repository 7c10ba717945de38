"""How good predicted sets are: average precision, set distances, set sizes, errors of matched elements, and trivial
baselines; pure functions and metrics over ranks.
"""

from setpredict.metrics.average_precision import (
    box_average_precision,
    pooled_average_precision,
    state_average_precision,
)
from setpredict.metrics.baselines import baselines
from setpredict.metrics.candidates import box_candidates, box_iou, state_candidates
from setpredict.metrics.coco import CocoAveragePrecision
from setpredict.metrics.detection import BoxAveragePrecision, StateAveragePrecision
from setpredict.metrics.distance import SetDistance
from setpredict.metrics.exact import ExactAccuracy, exact_elements
from setpredict.metrics.matched import MatchedErrors
from setpredict.metrics.set_size import SetSizeAccuracy, size_differences

__all__ = [
    "BoxAveragePrecision",
    "CocoAveragePrecision",
    "ExactAccuracy",
    "MatchedErrors",
    "SetDistance",
    "SetSizeAccuracy",
    "StateAveragePrecision",
    "baselines",
    "box_average_precision",
    "box_candidates",
    "box_iou",
    "exact_elements",
    "pooled_average_precision",
    "size_differences",
    "state_average_precision",
    "state_candidates",
]
