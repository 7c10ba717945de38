"""The outer loss of Algorithm 1, for a prediction of any decoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from setpredict.losses.chamfer import chamfer_loss
from setpredict.losses.hungarian import hungarian_loss
from setpredict.sets import Prediction, Sets

SetLoss = Callable[[Sets, Sets], Tensor]
NAMED: dict[str, SetLoss] = {"chamfer": chamfer_loss, "hungarian": hungarian_loss}


def outer_loss(
    prediction: Prediction,
    target: Sets,
    set_loss: SetLoss | Literal["chamfer", "hungarian"] = "hungarian",
    *,
    steps: Literal["all", "last"] = "all",
    repr_weight: float = 0.1,
) -> dict[str, Tensor]:
    """mean over t of L_set(Yt, Y) + λ L_repr(Y, z), both averaged over the batch, with its parts by name.

    `steps="all"` takes every set that carries gradients (Y0 … YT with full backpropagation, the last k with
    `backprop_steps=k`), `"last"` only YT. The λ term is there where the decoder has a set encoder that is not also
    the input encoder, and the model was given the target.

    Parts: `loss` (differentiate this), `set` (the first term), `set_first` and `set_last` (of the first and last of
    those sets), and `repr` (before λ), the last three detached.
    """
    if steps not in ("all", "last"):
        raise ValueError(f"steps must be 'all' or 'last', got {steps!r}")
    if isinstance(set_loss, str) and set_loss not in NAMED:
        raise ValueError(f"the set loss must be {', '.join(NAMED)} or a function of two Sets, got {set_loss!r}")
    loss_of = NAMED[set_loss] if isinstance(set_loss, str) else set_loss
    first = prediction.grad_from if steps == "all" else prediction.steps
    elements, mask = prediction.elements[first:], prediction.mask[first:]
    S, B = mask.shape[:2]
    if not bool(torch.isfinite(elements).all() & torch.isfinite(mask).all()):
        for t in range(first, prediction.steps + 1):
            prediction.step(t).check_finite(f"step {t}: predicted set")
    repeated = Sets(target.elements.repeat(S, 1, 1), target.mask.repeat(S, 1))
    each = loss_of(Sets(elements.flatten(0, 1), mask.flatten(0, 1)), repeated).view(S, B).mean(dim=1)  # (S,)
    parts = {"set": each.mean(), "set_first": each[0].detach(), "set_last": each[-1].detach()}
    parts["loss"] = parts["set"]
    if prediction.target_loss is not None:
        representation = prediction.target_loss.mean()
        parts["repr"] = representation.detach()
        parts["loss"] = parts["set"] + repr_weight * representation
    return parts
