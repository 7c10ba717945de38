"""The inner loop: a solver on an objective, for a batch of samples, differentiated as `gradient` says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from setpredict.config import Gradient, GradientDescent, Unrolled
from setpredict.core.loops import State, traced_loop
from setpredict.core.modes import is_tracing
from setpredict.decoders.inner.gradient import Projection, pass_through
from setpredict.decoders.inner.objective import FunctionObjective, Objective
from setpredict.decoders.inner.solver import direction, per_sample


@dataclass
class Descent:
    """The trajectory of the samples."""

    states: Float[Tensor, "T1 B ..."]
    losses: Float[Tensor, "T1 B"]  # of every state, without gradients
    grad_norms: Float[Tensor, "T B"]  # of the objective, before penalty and clipping
    steps_taken: Int[Tensor, " B"]
    grad_from: int  # the first state that carries gradients


def descend(
    objective: Objective | Callable[[Tensor], Tensor],
    start: Float[Tensor, "B ..."],
    solver: GradientDescent | None = None,
    gradient: Gradient | None = None,
    *,
    project: Projection | None = None,
    scale: Tensor | None = None,
) -> Descent:
    """Take T steps Y ← P(Y − ηd) from P(start), for samples of any shape.

    Args:
        objective: What to minimize: an `Objective`, or a function from a batch (B, …) to losses (B,) in which no
            sample's loss depends on another sample.
        start: The initial samples.
        solver: Steps, step size, momentum, clipping, penalty and when to stop.
        gradient: How to differentiate: `Unrolled()`, `LastSteps(k)` or `Implicit()`.
        project: P, applied to the initial samples and after every step (None: the identity).
        scale: Factors of the step, broadcast over the samples: 0 leaves a feature in place, which then does not count
            in the norm that is clipped.

    >>> found = descend(lambda y: (y**2).sum(1) / 2, torch.tensor([[4.0], [8.0]]), GradientDescent(2, 0.5))
    >>> found.states[:, :, 0]
    tensor([[4., 8.],
            [2., 4.],
            [1., 2.]])
    """
    solver, gradient = solver or GradientDescent(), gradient or Unrolled()
    goal = objective if isinstance(objective, Objective) else FunctionObjective(objective)
    T, first = solver.steps, solver.steps - gradient.differentiated(solver.steps)
    y = anchor = _project_start(start, project) if project else start
    if first:
        y = y.detach()  # the anchor is not: the penalty of the differentiated steps is its gradient
    loop = _Loop(goal, solver, gradient, project or (lambda y: y), scale, anchor, truncated=first > 0)
    if is_tracing() and T:
        return _traced(loop, y, T)
    states, losses, grads = [y], [], []
    for t in range(T):
        if loop.all_stopped:
            break
        with torch.set_grad_enabled(torch.is_grad_enabled() and t >= first):
            loss, grad = loop.evaluate(y)
            losses.append(loss.detach())
            grads.append(grad.detach())
            y = loop.step(y, loss, grad, last=t == T - 1)
        states.append(y)
    with torch.no_grad():
        losses.append(goal.losses(y))
    rest = T + 1 - len(states)  # all samples stopped early and stay where they are
    return Descent(
        torch.stack(states + states[-1:] * rest),
        torch.stack(losses + losses[-1:] * rest),
        torch.stack(grads + grads[-1:] * rest)[..., None].flatten(2).norm(dim=2) if T else y.new_zeros(0, y.shape[0]),
        loop.taken,
        grad_from=first + 1 if first else 0,
    )


class _Loop:
    """The inner loop between two steps."""

    def __init__(
        self,
        objective: Objective,
        solver: GradientDescent,
        gradient: Gradient,
        project: Projection,
        scale: Tensor | None,
        anchor: Tensor,
        truncated: bool,
    ):
        self.objective, self.solver, self.gradient, self.project, self.scale = (
            objective, solver, gradient, project, scale
        )  # fmt: skip
        self.anchor, self.velocity, self.truncated = anchor, torch.zeros_like(anchor), truncated
        self.moves = None if scale is None else (scale.detach() != 0).to(anchor.dtype)
        self.active = torch.ones(anchor.shape[0], dtype=torch.bool, device=anchor.device)
        # Counted where samples can stop; else all take all steps.
        self.taken = self.active.long() * (solver.steps if solver.stop_below is None else 0)
        # Stopped samples cost nothing where no gradient and no trace has to know of them.
        self.skips = solver.stop_below is not None and not torch.is_grad_enabled() and not is_tracing()
        self.found: tuple[Tensor, Tensor] | None = None

    @property
    def all_stopped(self) -> bool:
        return self.skips and self.found is not None and not bool(self.active.any())

    def evaluate(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Losses and gradients; samples that have stopped keep theirs where gradients are off."""
        moving = None if self.found is None or not self.skips else _moving(self.active)
        part = None if moving is None else self.objective.subset(moving)
        if moving is None or part is None:
            self.found = self.objective.value_and_grad(y)
        else:
            assert self.found is not None
            new = part.value_and_grad(y[moving])
            self.found = self.found[0].index_copy(0, moving, new[0]), self.found[1].index_copy(0, moving, new[1])
        return self.found

    def step(self, y: Tensor, loss: Tensor, grad: Tensor, last: bool) -> Tensor:
        solver = self.solver
        if solver.penalty:
            count = prod(y.shape[1:]) if solver.penalty_reduction == "mean" else 1
            grad = grad + solver.penalty / count * (y - self.anchor)
        grad = grad if self.moves is None else grad * self.moves
        step, self.velocity = direction(solver, grad, self.velocity)
        step = step if self.scale is None else step * self.scale
        new = self.project(y - solver.step_size * step)
        if solver.stop_below is not None:
            self.active = self.active & (loss.detach() >= solver.stop_below)
            new = torch.where(per_sample(self.active, new), new, self._stopped(y, new))
            self.taken = self.taken + self.active
        if last and torch.is_grad_enabled():
            new = pass_through(self.gradient, new, y, grad, self.project, self.scale)
        return new

    def _stopped(self, y: Tensor, new: Tensor) -> Tensor:
        """Samples that have stopped, which stay.

        Where only the last steps are differentiated, they have the derivative of the step that is not taken: they would
        have none at all otherwise.
        """
        return y.detach() + (new - new.detach()) if self.truncated and torch.is_grad_enabled() else y


def _traced(loop: _Loop, y: Tensor, steps: int) -> Descent:
    """The same in a trace, which holds one step."""
    carried = ["velocity"] * bool(loop.solver.momentum) + ["active", "taken"] * (loop.solver.stop_below is not None)

    def carry() -> State:
        return tuple(getattr(loop, name) for name in carried)

    def step(state: State) -> tuple[State, State]:
        y, *values = state
        for name, value in zip(carried, values):
            setattr(loop, name, value)
        loss, grad = loop.evaluate(y)
        y = loop.step(y, loss, grad, last=False)
        return (y, *carry()), (loss, grad.flatten(1).norm(dim=1))

    (states, *values), (losses, norms) = traced_loop(step, (y, *carry()), steps)
    last = loop.objective.losses(states[-1])
    taken = values[-1][-1] if "taken" in carried else loop.taken
    return Descent(torch.cat([y[None], states]), torch.cat([losses, last[None]]), norms, taken, grad_from=0)


def _moving(active: Bool[Tensor, " B"]) -> Int[Tensor, " b"] | None:
    """The indices of the samples that have not stopped; None if all still move."""
    return None if bool(active.all()) else active.nonzero().squeeze(1)


def _project_start(start: Tensor, project: Projection) -> Tensor:
    """P(start); one set that all samples share stays one, so that a first pass can be shared too."""
    if start.shape[0] > 1 and start.stride(0) == 0:
        return project(start[:1]).expand_as(start)
    return project(start)
