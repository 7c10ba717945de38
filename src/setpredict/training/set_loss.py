"""From a configuration to the set loss that training minimizes and validation measures."""

from __future__ import annotations

from functools import partial

from setpredict.config import ConfigError, LossConfig
from setpredict.data.task import SetTask
from setpredict.losses import SetLoss, chamfer_loss, hungarian_loss
from setpredict.matching import PairCost


def make_set_loss(loss: LossConfig, task: SetTask) -> SetLoss:
    """The set loss that a configuration names, with the data set's one-hot groups if they are scored as such."""
    if loss.set == "chamfer" and loss.masks == "filter" and task.variable:
        raise ConfigError(
            "loss.masks 'filter' with the chamfer loss trains no masks, and sets here differ in size; "
            "use loss.masks 'feature'"
        )
    for name, weight in (("repr_weight", loss.repr_weight), ("mask_weight", loss.mask_weight)):
        if not 0 <= weight < float("inf"):
            raise ConfigError(f"loss.{name} must be 0 or more, got {weight:g}")
    if loss.cross_entropy and not task.groups:
        raise ConfigError(f"loss.cross_entropy is for categories, and the elements of {task.name} have none")
    cost = PairCost(loss.cost, groups=task.groups if loss.cross_entropy else None)
    if loss.set == "chamfer":
        return partial(chamfer_loss, cost=cost, masks=loss.masks)
    return partial(hungarian_loss, cost=cost, masks=loss.masks, mask_weight=loss.mask_weight)
