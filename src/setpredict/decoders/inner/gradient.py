"""How to differentiate through the inner loop: `Unrolled`, `LastSteps(k)` or `Implicit` (see config/inner.py)."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from setpredict.config import Gradient, Implicit

Projection = Callable[[Tensor], Tensor]


def pass_through(
    gradient: Gradient, new: Tensor, y: Tensor, grad: Tensor, project: Projection, scale: Tensor | None = None
) -> Tensor:
    """The last set of the loop with the derivative that the outer loss sees.

    For `Implicit` that is the derivative of P(Y − ∂L/∂Y), with the gradient times the `scale` of the steps, while the
    value stays that of the solver's step.
    """
    if not isinstance(gradient, Implicit):
        return new
    through = project(y - grad if scale is None else y - grad * scale)
    return new.detach() + (through - through.detach())
