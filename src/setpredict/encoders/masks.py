"""What a set encoder does with the mask of its set."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from setpredict.sets import Mask

MaskRole = Literal["feature", "weight", "filter", "none"]
"""feature: one more input of every element (the paper). weight: multiplies every element's features before pooling.
filter: a hard mask; what is absent takes no part. none: sets of fixed size, no mask."""


def mask_inputs(role: MaskRole) -> int:
    """How many inputs the mask adds to an element."""
    if role not in ("feature", "weight", "filter", "none"):
        raise ValueError(f"mask must be 'feature', 'weight', 'filter' or 'none', got {role!r}")
    return int(role == "feature")


def enter(
    elements: Float[Tensor, "B N D"], mask: Mask | None, role: MaskRole
) -> tuple[Float[Tensor, "B N C"], Float[Tensor, "B N"] | None, Bool[Tensor, "B N"] | None]:
    """The inputs of the element network, a soft weight for its outputs and a hard mask for the pooling."""
    B, N, _ = elements.shape
    if role == "none":
        if mask is not None and not (mask.dtype == torch.bool and bool(mask.all())):
            raise ValueError("this set encoder has mask='none' (sets of fixed size), but was given a mask")
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
    if mask is None:
        size = code.new_ones(code.shape[0])
    else:
        size = mask.to(code.dtype).mean(dim=1) if elements.shape[1] else code.new_zeros(code.shape[0])
    return torch.cat([code, 4 * size[:, None]], dim=-1)
