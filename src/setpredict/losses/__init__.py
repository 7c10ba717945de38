"""Set losses that ignore order, and the outer loss of Algorithm 1."""

from setpredict.losses.chamfer import chamfer_loss
from setpredict.losses.hungarian import hungarian_loss
from setpredict.losses.outer import SetLoss, outer_loss

__all__ = ["SetLoss", "chamfer_loss", "hungarian_loss", "outer_loss"]
