"""How the mask of a set enters a set encoder."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from setpredict.core.errors import UserError
from setpredict.core.modes import is_tracing
from setpredict.encoders.precision import full_precision
from setpredict.sets import Mask

MASK_SUM = 4.0
"""Factor of the mean of the masks where it is a latent number."""
MaskRole = Literal["feature", "weight", "filter", "none"]
"""feature: one more input of every element (the paper). weight: multiplies every element's features before pooling.
filter: a hard mask; absent elements are left out. none: sets of fixed size, no mask."""


def mask_inputs(role: MaskRole) -> int:
    """How many inputs the mask adds to an element."""
    if role not in ("feature", "weight", "filter", "none"):
        raise UserError(f"mask must be 'feature', 'weight', 'filter' or 'none', got {role!r}")
    return int(role == "feature")


def split_mask(
    elements: Float[Tensor, "B N D"], mask: Mask | None, role: MaskRole
) -> tuple[Float[Tensor, "B N C"], Float[Tensor, "B N"] | None, Bool[Tensor, "B N"] | None]:
    """The inputs of the network per element, a soft weight for its outputs, and a hard mask for the pooling."""
    B, N, _ = elements.shape
    if role == "none":
        if mask is not None and mask.dtype != torch.bool:
            raise TypeError("this set encoder has mask='none' (sets of fixed size), but was given a soft mask")
        if mask is not None and not is_tracing() and not bool(mask.all()):
            least = int(mask.sum(dim=1).min())
            raise UserError(f"this set encoder takes sets of exactly {N} elements, got one of {least}")
        return elements, None, None
    if mask is None:
        mask = torch.ones(B, N, dtype=torch.bool, device=elements.device)
    if role == "filter":
        if mask.dtype != torch.bool:
            raise TypeError(
                "mask='filter' removes elements and takes a bool mask; a soft mask has no gradient through it. "
                "Build the encoder with mask='feature' or mask='weight', or pass `mask > 0.5`."
            )
        return elements, None, mask
    soft = mask.to(elements.dtype)
    if role == "weight":
        return elements, soft, None
    return torch.cat([elements, soft[..., None]], dim=-1), None, None


def append_mask_sum(
    code: Float[Tensor, "B L"], mask: Mask | None, elements: Float[Tensor, "B N D"]
) -> Float[Tensor, "B L1"]:
    """Four times the mean of the masks as one more latent feature: an explicit signal for the size of the set."""
    code = full_precision(code)  # a bfloat16 cannot tell 311 of 342 elements from 312
    if not elements.shape[1]:
        size = code.new_zeros(code.shape[0])
    else:
        size = code.new_ones(code.shape[0]) if mask is None else mask.to(code.dtype).mean(dim=1)
    return torch.cat([code, MASK_SUM * size[:, None]], dim=-1)
