"""Diagnosis of the inner loop, and the paper's recipe for the step size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from setpredict.config import GradientDescent
from setpredict.core.modes import evaluating
from setpredict.sets import Prediction


@dataclass
class Diagnosis:
    """The inner loop step by step, averaged over the batch, with a verdict. Print it."""

    repr_loss: list[float]
    """L_repr(Yt, z) for t = 0 … T."""
    grad_norm: list[float]
    """‖∂L/∂Yt‖ for t = 0 … T−1."""
    moved: list[float]
    """‖Yt+1 − Yt‖ / √(numbers in the set), the size of each step."""
    displacement: list[float]
    """‖Yt − Y0‖ / √(numbers in the set) for t = 0 … T."""
    verdict: str
    healthy: bool

    def __str__(self) -> str:
        lines = ["step   L_repr      ‖gradient‖  moved       from Y0"]
        for t, loss in enumerate(self.repr_loss):
            grad = f"{self.grad_norm[t]:.3e}" if t < len(self.grad_norm) else " " * 9
            moved = f"{self.moved[t]:.3e}" if t < len(self.moved) else " " * 9
            lines.append(f"{t:4d}   {loss:.3e}   {grad}   {moved}   {self.displacement[t]:.3e}")
        return "\n".join([*lines, self.verdict])


VISIBLE = 1e-3  # of the unit range: with a smaller displacement over all steps, Y0 is as good as YT


def diagnose(prediction: Prediction) -> Diagnosis:
    """Diagnose an inner loop: does the set move, does the representation loss fall, does anything explode?

    Args:
        prediction: The trajectory of a decoder with an inner loop.

    >>> from setpredict import DSPN, DeepSetEncoder
    >>> decoder = DSPN(DeepSetEncoder(features=2, latent=16, max_size=4))
    >>> len(diagnose(decoder(torch.zeros(1, 16))).repr_loss)  # T + 1
    11
    """
    if prediction.repr_loss is None or prediction.grad_norm is None:
        raise ValueError("this prediction has no representation loss to diagnose: its decoder has no inner loop")
    if not prediction.elements.shape[1]:
        raise ValueError("there are no samples to diagnose")
    state = torch.cat([prediction.elements, prediction.mask[..., None]], dim=-1).detach()
    scale = state[0, 0].numel() ** 0.5
    moved = (state.diff(dim=0).flatten(2).norm(dim=2) / scale).mean(dim=1).tolist()
    displacement = (prediction.displacement / scale).mean(dim=1).tolist()
    loss = prediction.repr_loss.mean(dim=1).tolist()
    norms = prediction.grad_norm.mean(dim=1).tolist()
    verdict = _problem(loss, norms, displacement)
    return Diagnosis(loss, norms, moved, displacement, verdict or "The set moves.", healthy=verdict is None)


def _problem(loss: list[float], norms: list[float], displacement: list[float]) -> str | None:
    if not norms:
        return "No steps were taken: there is nothing to diagnose."
    if not all(torch.isfinite(torch.tensor([*loss, *norms, *displacement]))):
        return "The set explodes: values are no longer finite. Lower step_size, or set clip_norm (iDSPN uses 10)."
    if loss[-1] > 2 * loss[0] and loss[-1] > 1e-6:
        return "The representation loss rises: lower step_size or momentum, or set clip_norm (iDSPN uses 10)."
    if norms[0] == 0:
        return "The inner gradient is 0: the encoder's code does not depend on the set (dead units, or weights of 0)."
    if displacement[-1] < VISIBLE:
        return "The set hardly moves: raise step_size (suggest_step_size finds a start), or add momentum."
    return None


@torch.no_grad()
def suggest_step_size(
    model: Any, batch: Any, *, visible: float = 0.01, smallest: float = 2.0**-10, largest: float = 2.0**20
) -> float:
    """The paper's recipe for η: raise it until the set visibly moves between steps at random initialization.

    Args:
        model: A DSPN, or a SetPredictor with one.
        batch: Vectors z for a DSPN, inputs for a SetPredictor.
        visible: η is doubled until an average step moves an average number of the set by this much (for features of
            about unit range), or until the representation loss rises.
        smallest: The first η.
        largest: Raise an error beyond this.

    >>> from setpredict import DSPN, DeepSetEncoder
    >>> decoder = DSPN(DeepSetEncoder(features=2, latent=16, max_size=4))
    >>> suggest_step_size(decoder, torch.randn(8, 16)) > 0
    True
    """
    decoder = getattr(model, "decoder", model)
    if not isinstance(getattr(decoder, "solver", None), GradientDescent):
        raise ValueError(f"a {type(decoder).__name__} has no step size; step sizes are for DSPN")
    if not decoder.solver.steps:
        raise ValueError("a decoder of 0 steps moves nothing, whatever its step size")
    with evaluating(model):
        if decoder is model:
            decode = partial(decoder, batch)
        else:
            decode = partial(model.decode, model.encode(model.prepare(batch)))
        return _visible_step(decode, decoder.solver, visible, smallest, largest)


def _visible_step(
    decode: Callable[..., Prediction], solver: GradientDescent, visible: float, smallest: float, largest: float
) -> float:
    eta, best = smallest, smallest
    while eta <= largest:
        found = diagnose(decode(solver=replace(solver, step_size=eta)))
        if not all(torch.isfinite(torch.tensor(found.repr_loss))) or found.repr_loss[-1] > found.repr_loss[0]:
            return best
        best = eta
        if sum(found.moved) / max(len(found.moved), 1) >= visible:
            return eta
        eta *= 2
    raise ValueError(
        f"the set does not move even with step size {largest:g}: does the encoder's code depend on the set? "
        "print(diagnose(decoder(z))) shows its gradients."
    )
