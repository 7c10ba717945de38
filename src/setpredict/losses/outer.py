"""The outer loss of Algorithm 1, for the predictions of any decoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from setpredict.losses.chamfer import chamfer_loss
from setpredict.losses.hungarian import hungarian_loss
from setpredict.sets import Prediction, Sets

SetLoss = Callable[[Sets, Sets], Tensor]
"""A function of predicted and target sets that gives one loss per set (B,)."""
SET_LOSSES: dict[str, SetLoss] = {"chamfer": chamfer_loss, "hungarian": hungarian_loss}


@dataclass(frozen=True)
class OuterLoss:
    """`outer_loss` with its options, built once per run and passed on.

    >>> prediction = Prediction(torch.zeros(1, 1, 2, 1), torch.ones(1, 1, 2))
    >>> loss = OuterLoss(chamfer_loss, "chamfer", steps="last")
    >>> loss(prediction, Sets.from_list([[[0.0], [1.0]]]))["loss"]  # half of 0.5 from target to prediction, 2 features
    tensor(0.1250)
    """

    set_loss: SetLoss
    """`chamfer_loss`, `hungarian_loss`, or a function of predicted and target sets that gives one loss per set."""
    name: str
    """The name of the set loss in logs and tables."""
    steps: Literal["all", "last"] = "all"
    """Average over all sets that carry gradients, or take only the last one."""
    repr_weight: float = 0.1
    """λ, the weight of the representation loss of the target."""
    dense_weight: float = 0.0
    """The weight of the loss of a dense head, where the model has one."""
    feature_scale: tuple[float, ...] = ()
    """Factor of each feature in both sets (empty: 1)."""

    def __post_init__(self) -> None:
        _check_steps(self.steps)

    def __call__(self, prediction: Prediction, target: Sets) -> dict[str, Tensor]:
        """The loss and its parts by name, as `outer_loss` gives them."""
        parts = outer_loss(prediction, target, self.scaled_set_loss, steps=self.steps, repr_weight=self.repr_weight)
        if prediction.dense_loss is not None:
            dense = prediction.dense_loss.mean()
            parts["dense"] = dense.detach()
            parts["loss"] = parts["loss"] + self.dense_weight * dense
        return parts

    def scaled_set_loss(self, predicted: Sets, target: Sets) -> Tensor:
        """The set loss that is minimized (B,): with the factors of the features, which `set_loss` alone is without."""
        if not self.feature_scale:
            return self.set_loss(predicted, target)
        factors = target.elements.new_tensor(self.feature_scale)
        return self.set_loss(predicted.scaled(factors), target.scaled(factors))


def outer_loss(
    prediction: Prediction,
    target: Sets,
    set_loss: SetLoss | Literal["chamfer", "hungarian"] = "hungarian",
    *,
    steps: Literal["all", "last"] = "all",
    repr_weight: float = 0.1,
) -> dict[str, Tensor]:
    """mean over t of L_set(Yt, Y) + λ L_repr(Y, z), both averaged over the batch, and its parts by name.

    The λ term exists where the decoder has a set encoder that is not also the input encoder, and the model was given
    the target.

    Args:
        prediction: What a decoder returned.
        target: The true sets Y.
        set_loss: L_set, by name or as a function of predicted and target sets.
        steps: "all" averages over the sets that carry gradients (Y0 … YT with `Unrolled()`, the last k with
            `LastSteps(k)`), "last" takes only YT.
        repr_weight: λ.

    Returns:
        `loss` (differentiate this), `set` (the first term), `set_last` (the set loss of YT) and `repr` (before λ),
        the last two detached.

    >>> prediction = Prediction(torch.zeros(2, 1, 1, 1), torch.ones(2, 1, 1), target_loss=torch.tensor([2.0]))
    >>> parts = outer_loss(prediction, Sets.from_list([[[1.0]]]))
    >>> {name: round(value.item(), 3) for name, value in parts.items()}
    {'set': 0.25, 'set_last': 0.25, 'loss': 0.45, 'repr': 2.0}
    """
    _check_steps(steps)
    loss_of = named_set_loss(set_loss)
    first = prediction.grad_from if steps == "all" else prediction.steps
    elements, mask = prediction.elements[first:], prediction.mask[first:]
    S, B = mask.shape[:2]
    if len(target) != B:
        raise ValueError(f"{B} predicted sets for {len(target)} targets")
    if not bool(torch.isfinite(elements).all() & torch.isfinite(mask).all()):
        for t in range(first, prediction.steps + 1):
            prediction.step(t).check_finite(f"step {t}: predicted set")
    repeated = Sets(target.elements.repeat(S, 1, 1), target.mask.repeat(S, 1))
    each = loss_of(Sets(elements.flatten(0, 1), mask.flatten(0, 1)), repeated).view(S, B).mean(dim=1)  # (S,)
    parts = {"set": each.mean(), "set_last": each[-1].detach()}
    parts["loss"] = parts["set"]
    if prediction.target_loss is not None:
        representation = prediction.target_loss.mean()
        parts["repr"] = representation.detach()
        parts["loss"] = parts["set"] + repr_weight * representation
    return parts


def named_set_loss(loss: SetLoss | str) -> SetLoss:
    """The set loss of that name; a function is returned as it is."""
    if not isinstance(loss, str):
        return loss
    if loss not in SET_LOSSES:
        raise ValueError(f"the set loss must be {', '.join(SET_LOSSES)} or a function of two Sets, got {loss!r}")
    return SET_LOSSES[loss]


def _check_steps(steps: str) -> None:
    if steps not in ("all", "last"):
        raise ValueError(f"steps must be 'all' or 'last', got {steps!r}")
