"""Nearest neighbors and optimal assignment between batches of sets: indices only, no gradients."""

from setpredict.matching.assignment import assign
from setpredict.matching.cost import PairCost
from setpredict.matching.nearest import nearest

__all__ = ["PairCost", "assign", "nearest"]
