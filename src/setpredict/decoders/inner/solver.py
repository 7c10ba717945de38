"""The solver of the inner loop: what gradient descent makes of a gradient."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from setpredict.config import GradientDescent


def direction(
    solver: GradientDescent, grad: Float[Tensor, "B ..."], velocity: Float[Tensor, "B ..."]
) -> tuple[Float[Tensor, "B ..."], Float[Tensor, "B ..."]]:
    """The direction d of the step Y ← Y − ηd, and the new velocity.

    g is the gradient, clipped per sample. Without momentum d = g; with momentum μ, v ← μv + g and d = v, or d = g + μv
    with Nesterov's form.
    """
    if solver.clip_norm is not None:
        grad = clip(grad, solver.clip_norm)
    if not solver.momentum:
        return grad, velocity
    velocity = solver.momentum * velocity + grad
    return grad + solver.momentum * velocity if solver.nesterov else velocity, velocity


def clip(grad: Float[Tensor, "B ..."], norm: float) -> Float[Tensor, "B ..."]:
    """Scale every sample to at most that norm; below it the factor is exactly 1, and smooth at a zero gradient."""
    squared = grad[..., None].flatten(1).square().sum(dim=1)
    bound = squared.new_full((), norm**2)
    return grad * per_sample(bound.sqrt() / squared.maximum(bound).sqrt(), grad)


def per_sample(values: Tensor, like: Tensor) -> Tensor:
    """One value per sample, (B,), shaped to broadcast over samples of any shape."""
    return values.view(-1, *[1] * (like.ndim - 1))
