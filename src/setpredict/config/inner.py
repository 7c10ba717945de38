"""The inner loop's options: the solver, and how to differentiate through it."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from setpredict.core.errors import UserError

MOST_STEPS = 10_000
"""Inner steps that a prediction may be asked for."""


def _whole(name: str, value: Any) -> int:
    """A whole number, also one of NumPy's."""
    try:
        return operator.index(value)
    except TypeError:
        raise UserError(f"{name} must be a whole number, got {value!r}") from None


@dataclass(frozen=True)
class GradientDescent:
    """The inner loop: T steps of gradient descent on the set.

    Examples:
        >>> GradientDescent(steps=20, step_size=1.0, momentum=0.9, nesterov=True, clip_norm=10).steps
        20
    """

    steps: int = 10
    """T, the number of inner steps; of slots the iterations, of a transformer the layers. It can differ at every call:
    `model.predict(x, steps=30)`; a transformer can only use fewer."""
    step_size: float = 25.0
    """η. The inner loss is averaged over the latent and summed over the batch, so that no prediction depends on the
    other samples of its batch; 25 is the paper's 800 at its batch of 32."""
    momentum: float = 0.0
    """Momentum μ of the inner steps (iDSPN uses 0.9)."""
    nesterov: bool = False
    """Nesterov's form of the momentum (iDSPN uses it)."""
    clip_norm: float | None = None
    """Largest norm of the inner gradient of one sample (iDSPN uses 10)."""
    penalty: float = 0.0
    """Weight of half the squared distance from the initial set, which pulls the set back towards it. An initial set
    that is learned gets its gradient through this where the first steps are not differentiated."""
    stop_below: float | None = None
    """Stop a sample once its representation loss is below this. `prediction.steps_taken` counts its steps; stopped
    samples cost no more time."""
    penalty_reduction: Literal["sum", "mean"] = "sum"
    """The squared distance of the penalty is summed over the numbers in a set, or averaged (iDSPN)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", _whole("steps", self.steps))
        if self.steps < 0:
            raise UserError(f"steps must be 0 or more, got {self.steps}")
        if not 0 < self.step_size < float("inf"):
            raise UserError(f"step_size must be above 0, got {self.step_size}")
        if not 0 <= self.momentum < 1:
            raise UserError(f"momentum must be from 0 to below 1, got {self.momentum}")
        if self.nesterov and not self.momentum:
            raise UserError("nesterov=True needs a momentum above 0, got momentum=0")
        if not 0 <= self.penalty < float("inf"):
            raise UserError(f"penalty must be 0 or more, got {self.penalty}")
        if self.penalty_reduction not in ("sum", "mean"):
            raise UserError(f"penalty_reduction must be sum or mean, got {self.penalty_reduction!r}")
        if self.stop_below is not None and not 0 <= self.stop_below < float("inf"):
            raise UserError(f"stop_below must be 0 or more, or None to take all steps, got {self.stop_below}")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise UserError(f"clip_norm must be above 0, or None for no clipping, got {self.clip_norm}")
        if self.clip_norm is not None and not 1e-18 <= self.clip_norm <= 1e18:  # float32 must hold its square
            raise UserError(f"clip_norm must be from 1e-18 to 1e18, or None for no clipping, got {self.clip_norm}")


@dataclass(frozen=True)
class Unrolled:
    """Differentiate through all T steps (the paper).

    >>> Unrolled().differentiated(steps=10)
    10
    """

    def differentiated(self, steps: int) -> int:
        """How many of the last steps carry gradients."""
        return steps

    def __str__(self) -> str:
        return "unrolled"


@dataclass(frozen=True)
class LastSteps:
    """Differentiate through the last k steps only; memory does not grow with T.

    >>> LastSteps(5).differentiated(steps=20)
    5
    """

    k: int = 1
    """How many steps."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", _whole("LastSteps", self.k))
        if self.k < 1:
            raise UserError(f"LastSteps needs at least 1 step, got {self.k}")

    def differentiated(self, steps: int) -> int:
        """How many of the last steps carry gradients."""
        return min(self.k, steps)

    def __str__(self) -> str:
        return f"last:{self.k}"


@dataclass(frozen=True)
class Implicit:
    """iDSPN's approximate implicit differentiation: the last step passes back the derivative of Y − ∂L/∂Y, whatever
    step size, momentum and clipping made of its value.

    >>> Implicit().differentiated(steps=20)
    1
    """

    def differentiated(self, steps: int) -> int:
        """How many of the last steps carry gradients."""
        return min(1, steps)

    def __str__(self) -> str:
        return "implicit"


Gradient = Unrolled | LastSteps | Implicit


def parse_gradient(text: Any) -> Gradient:
    """The inverse of `str`.

    >>> parse_gradient("last:5")
    LastSteps(k=5)
    """
    if text == "unrolled":
        return Unrolled()
    if text == "implicit":
        return Implicit()
    kind, _, count = str(text).partition(":")
    if kind == "last" and count.isdecimal() and 1 <= int(count) <= 10**6:
        return LastSteps(int(count))
    raise UserError(f"the gradient must be unrolled, last:K (such as last:5) or implicit, got {text!r}")


def check_has_steps(trained: int, steps: Iterable[int | None], name: object, option: str = "--steps") -> None:
    """Raise if numbers of steps are given for a model that has none."""
    given = [t for t in steps if t is not None]
    if given and not trained:
        asked = " ".join(map(str, given))
        raise UserError(f"{name} is a one-shot decoder and has no steps: leave out {option} {asked}")


def check_steps(steps: Iterable[int | None]) -> None:
    """Raise for numbers of inner steps that no prediction can take: every set of a trajectory is kept."""
    given = [t for t in steps if t is not None]
    if any(not 0 <= t <= MOST_STEPS for t in given):
        raise UserError(f"--steps must be from 0 to {MOST_STEPS:,}, got {' '.join(map(str, given))}")
