"""The representation loss L_repr(Y, z): how far a set's code is from the vector to be decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from setpredict.sets import Mask

ReprLoss = Literal["huber", "squared"]
SetEncoder = Callable[[Tensor, Mask | None], Tensor]
"""Any set encoder: elements (B, N, D) and a mask (B, N) or None to codes (B, L), sample by sample."""


def representation_loss(
    code: Float[Tensor, "B K"], z: Float[Tensor, "B L"], kind: ReprLoss = "huber"
) -> Float[Tensor, " B"]:
    """mean over the latent of h(code − z), one number a sample, with h Huber (the paper) or d²/2 (iDSPN).

    The authors' release averages over the batch too, so that a prediction depended on who shared its batch. Summed over
    the batch instead, step size 25 is the release's 800 at its batch of 32.

    >>> import torch
    >>> representation_loss(torch.tensor([[0.0, 3.0]]), torch.tensor([[1.0, 0.0]]))
    tensor([1.5000])
    """
    if code.shape != z.shape:
        raise ValueError(f"the set encoder's code has {code.shape[-1]} numbers, the vector to decode {z.shape[-1]}")
    if kind == "squared":
        return ((code - z) ** 2 / 2).mean(dim=1)
    if kind == "huber":
        return F.smooth_l1_loss(code, z, reduction="none").mean(dim=1)
    raise ValueError(f"the representation loss must be 'huber' or 'squared', got {kind!r}")


@dataclass(eq=False)
class ReprObjective:
    """Y ↦ L_repr(Y, z) on the tensor that the inner loop changes: elements, with the mask as last feature if any."""

    encoder: SetEncoder
    z: Float[Tensor, "B L"]
    kind: ReprLoss = "huber"
    read: Callable[[Tensor], tuple[Tensor, Tensor | None]] = lambda state: (state, None)
    """From the state to the elements and mask that the encoder sees."""

    def __call__(self, state: Float[Tensor, "B N C"]) -> Float[Tensor, " B"]:
        return representation_loss(self.encoder(*self.read(state)), self.z, self.kind)

    def of(self, samples: Int[Tensor, " b"]) -> ReprObjective:
        """The same for some of the samples."""
        return replace(self, z=self.z[samples])
