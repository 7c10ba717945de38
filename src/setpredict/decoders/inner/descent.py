"""The inner loop: gradient descent on a batch of samples, differentiable as a whole or in its last steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Objective = Callable[[Tensor], Tensor]
"""From a batch of samples (B, …) to a loss each (B,), no sample's loss depending on another sample. One that knows
its own derivative has a method `value_and_grad(y)`, which returns losses (B,) and gradients (B, …). One that can leave
out samples has a method `of(indices)`, which returns the objective of those alone."""


@dataclass
class Descent:
    """The way that the samples took."""

    states: Float[Tensor, "T1 B ..."]
    losses: Float[Tensor, "T1 B"]  # of every state, without gradients
    grad_norms: Float[Tensor, "T B"]  # of the objective, before penalty and clipping
    steps_taken: Int[Tensor, " B"]
    grad_from: int  # the first state that carries gradients


def descend(
    objective: Objective,
    start: Float[Tensor, "B ..."],
    *,
    steps: int,
    step_size: float,
    momentum: float = 0.0,
    nesterov: bool = False,
    clip_norm: float | None = None,
    penalty: float = 0.0,
    project: Callable[[Tensor], Tensor] | None = None,
    stop_below: float | None = None,
    backprop_steps: int | None = None,
    implicit: bool = False,
) -> Descent:
    """Take `steps` steps Y ← P(Y − η ∂L/∂Y) from P(start), for samples of any shape.

    With momentum μ, v ← μv + g and the step is ηv, or η(g + μv) with `nesterov`. `clip_norm` bounds every sample's
    gradient norm. `penalty` adds penalty/2 ‖Y − Y0‖² to what is minimized. A sample whose loss is below `stop_below` no
    longer changes, and costs nothing more where there are no gradients. Differentiation goes through the last
    `backprop_steps` steps (None: all of them); `implicit` with one step is iDSPN's: the last step passes back the
    derivative of P(Y − g), whatever step size, momentum and clipping made of its value.

    >>> way = descend(lambda y: (y**2).sum(1) / 2, torch.tensor([[4.0], [8.0]]), steps=2, step_size=0.5)
    >>> way.states[:, :, 0]
    tensor([[4., 8.],
            [2., 4.],
            [1., 2.]])
    """
    check_steps(steps, backprop_steps, implicit, clip_norm)
    value_and_grad = _value_and_grad(objective)
    k = steps if backprop_steps is None else min(backprop_steps, steps)
    y = start if project is None else _project_start(start, project)
    if k < steps:
        y = y.detach()
    anchor = y
    velocity = torch.zeros_like(y)
    active = torch.ones(len(y), dtype=torch.bool, device=y.device)
    taken = active.long() * 0
    states, losses, norms, found = [y], [], [], None
    sparing = stop_below is not None and not torch.is_grad_enabled()
    for t in range(steps):
        if sparing and found and not bool(active.any()):
            break
        with torch.set_grad_enabled(torch.is_grad_enabled() and t >= steps - k):
            found = _still(objective, y, active, found) if sparing and found else value_and_grad(y)
            loss, grad = found
            norms.append(grad.detach().flatten(1).norm(dim=1))
            losses.append(loss.detach())
            if penalty:
                grad = grad + penalty * (y - anchor)
            update = grad if clip_norm is None else _clip(grad, clip_norm)
            if momentum:
                velocity = momentum * velocity + update
                update = update + momentum * velocity if nesterov else velocity
            new = y - step_size * update
            new = new if project is None else project(new)
            if implicit and t == steps - 1 and torch.is_grad_enabled():
                through = y - grad if project is None else project(y - grad)
                new = new.detach() + (through - through.detach())
            if stop_below is not None:
                active = active & (loss.detach() >= stop_below)
                new = torch.where(_over(active, new), new, y)
            taken = taken + active
            y = new
        states.append(y)
    with torch.no_grad():
        losses.append(objective(y))
    rest = steps + 1 - len(states)  # all samples stopped early: they stay where they are
    return Descent(
        torch.stack(states + states[-1:] * rest),
        torch.stack(losses + losses[-1:] * rest),
        torch.stack(norms + norms[-1:] * rest) if steps else y.new_zeros(0, len(y)),
        taken,
        grad_from=0 if k == steps else steps - k + 1,
    )


def _still(
    objective: Objective, y: Tensor, active: Bool[Tensor, " B"], before: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Losses and gradients of the samples that still move; the others keep those from before."""
    part = getattr(objective, "of", None)
    if part is None or bool(active.all()):
        return _value_and_grad(objective)(y)
    moving = active.nonzero().squeeze(1)
    loss, grad = _value_and_grad(part(moving))(y[moving])
    return before[0].index_copy(0, moving, loss), before[1].index_copy(0, moving, grad)


def _value_and_grad(objective: Objective) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Its own, or by `torch.func`, which also works inside no_grad, inference_mode and DDP."""
    own = getattr(objective, "value_and_grad", None)
    if own is not None:
        return own

    def summed(y: Tensor) -> tuple[Tensor, Tensor]:
        losses = objective(y)
        return losses.sum(), losses

    def both(y: Tensor) -> tuple[Tensor, Tensor]:
        grad, (_, losses) = torch.func.grad_and_value(summed, has_aux=True)(y)
        return losses, grad

    return both


def _project_start(start: Tensor, project: Callable[[Tensor], Tensor]) -> Tensor:
    """P(start); one set that all samples share stays one, so that a first pass may be shared as well."""
    if len(start) > 1 and start.stride(0) == 0:
        return project(start[:1]).expand_as(start)
    return project(start)


def _clip(grad: Float[Tensor, "B ..."], norm: float) -> Float[Tensor, "B ..."]:
    """Scale every sample to at most that norm; below it the factor is exactly 1, and smooth at a zero gradient."""
    squared = grad.flatten(1).square().sum(dim=1)
    return grad * _over(norm / squared.clamp(min=norm**2).sqrt(), grad)


def _over(values: Float[Tensor, " B"] | Bool[Tensor, " B"], like: Tensor) -> Tensor:
    """One value a sample, shaped to broadcast over the samples."""
    return values.view(-1, *[1] * (like.ndim - 1))


def check_steps(steps: int, backprop_steps: int | None, implicit: bool, clip_norm: float | None) -> None:
    """Refuse what no loop can do."""
    if clip_norm is not None and not clip_norm > 0:
        raise ValueError(f"clip_norm must be above 0, or None for no clipping, got {clip_norm}")
    if steps < 0:
        raise ValueError(f"steps must be 0 or more, got {steps}")
    if backprop_steps is not None and backprop_steps < 1:
        raise ValueError(f"backprop_steps must be at least 1, or None for all, got {backprop_steps}")
    if implicit and backprop_steps != 1:
        raise ValueError(
            f"implicit differentiation is of the last step: it needs backprop_steps=1, got {backprop_steps}"
        )
