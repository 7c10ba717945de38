"""The objective of the inner loop: the representation loss L_repr(Y, z) = h(g(Y) − z), or any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from setpredict.core.errors import UserError
from setpredict.core.modes import is_tracing
from setpredict.sets import Mask

ReprLoss = Literal["huber", "squared"]
SetEncoder = Callable[[Tensor, Mask | None], Tensor]
"""Any set encoder: elements (B, N, D) and a mask (B, N) or None to codes (B, L), sample by sample."""


@runtime_checkable
class Objective(Protocol):
    """What the inner loop minimizes: one loss per sample, no sample's loss depending on another sample."""

    def losses(self, y: Float[Tensor, "B ..."]) -> Float[Tensor, " B"]:
        """The loss of every sample."""
        ...

    def value_and_grad(self, y: Float[Tensor, "B ..."]) -> tuple[Float[Tensor, " B"], Float[Tensor, "B ..."]]:
        """The loss of every sample and its gradient."""
        ...

    def subset(self, samples: Int[Tensor, " b"]) -> Objective | None:
        """The objective of some of the samples, or None if it cannot be split."""
        ...


def value_and_grad(
    losses: Callable[[Tensor], Tensor], y: Float[Tensor, "B ..."]
) -> tuple[Float[Tensor, " B"], Float[Tensor, "B ..."]]:
    """Losses and gradients by `torch.func`, which also works inside no_grad, inference_mode and DDP.

    A trace has them by autograd: the wrappers of `torch.func` would make the size of its batch a constant.
    """

    def checked(y: Tensor) -> Tensor:
        each = losses(y)
        if each.shape != y.shape[:1]:
            raise ValueError(f"the objective must return one loss per sample, (B,), got shape {tuple(each.shape)}")
        return each

    if is_tracing():
        with torch.enable_grad():
            y = y.detach().requires_grad_()
            each = losses(y)
            (grad,) = torch.autograd.grad(each.sum(), y)
        return each.detach(), grad

    def total(y: Tensor) -> tuple[Tensor, Tensor]:
        each = checked(y)
        return each.sum(), each

    grad, (_, each) = torch.func.grad_and_value(total, has_aux=True)(y)
    return each, grad


@dataclass(frozen=True)
class FunctionObjective:
    """A plain function from a batch (B, …) to losses (B,) as an objective; it cannot be split."""

    function: Callable[[Tensor], Tensor]

    def losses(self, y: Tensor) -> Tensor:
        return self.function(y)

    def value_and_grad(self, y: Tensor) -> tuple[Tensor, Tensor]:
        return value_and_grad(self.function, y)

    def subset(self, samples: Tensor) -> None:
        return None


@dataclass(frozen=True, eq=False)
class ReprObjective:
    """Y ↦ L_repr(Y, z) on the tensor that the inner loop changes: elements, with the mask as last feature if any."""

    encoder: SetEncoder
    z: Float[Tensor, "B L"]
    kind: ReprLoss = "huber"
    read: Callable[[Tensor], tuple[Tensor, Tensor | None]] = lambda state: (state, None)
    """From the state to the elements and mask that the encoder sees."""

    def losses(self, y: Float[Tensor, "B N C"]) -> Float[Tensor, " B"]:
        return representation_loss(self.encoder(*self.read(y)), self.z, self.kind)

    def value_and_grad(self, y: Float[Tensor, "B N C"]) -> tuple[Float[Tensor, " B"], Float[Tensor, "B N C"]]:
        return value_and_grad(self.losses, y)

    def subset(self, samples: Int[Tensor, " b"]) -> ReprObjective:
        return replace(self, z=self.z[samples])


def representation_loss(
    code: Float[Tensor, "B K"], z: Float[Tensor, "B L"], kind: ReprLoss = "huber"
) -> Float[Tensor, " B"]:
    """mean over the latent of h(code − z), one number per sample, with h Huber (the paper) or d²/2 (iDSPN).

    The authors' release averages over the batch too, so that a prediction depends on the other samples of its batch.
    Summed over the batch instead, step size 25 is the release's 800 at its batch of 32.

    >>> representation_loss(torch.tensor([[0.0, 3.0]]), torch.tensor([[1.0, 0.0]]))
    tensor([1.5000])
    """
    if code.shape != z.shape:
        raise ValueError(
            f"the set encoder's code has shape {tuple(code.shape)}, the vectors to decode {tuple(z.shape)}"
        )
    if kind == "squared":
        return ((code - z) ** 2 / 2).mean(dim=1)
    if kind == "huber":
        return F.smooth_l1_loss(code, z, reduction="none").mean(dim=1)
    raise UserError(f"the representation loss must be 'huber' or 'squared', got {kind!r}")
