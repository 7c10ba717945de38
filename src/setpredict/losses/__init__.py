"""Set losses that do not depend on the order of elements, and the outer loss of Algorithm 1."""

from setpredict.losses.chamfer import chamfer_loss
from setpredict.losses.hungarian import hungarian_loss
from setpredict.losses.outer import OuterLoss, SetLoss, outer_loss

__all__ = ["OuterLoss", "SetLoss", "chamfer_loss", "hungarian_loss", "outer_loss"]
