"""What to look at when a set does not move or explodes, and the paper's recipe for the step size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from setpredict.core.modes import evaluating
from setpredict.sets import Prediction


@dataclass
class Diagnosis:
    """The inner loop step by step, averaged over the batch, with a verdict in words. Print it."""

    repr_loss: list[float]
    """L_repr(Yt, z) for t = 0 … T."""
    grad_norm: list[float]
    """‖∂L/∂Yt‖ for t = 0 … T−1."""
    moved: list[float]
    """‖Yt+1 − Yt‖ / √(numbers in the set), the size of each step."""
    traveled: list[float]
    """‖Yt − Y0‖ / √(numbers in the set) for t = 0 … T."""
    verdict: str
    healthy: bool

    def __str__(self) -> str:
        lines = ["step   L_repr      ‖gradient‖  moved       from Y0"]
        for t, loss in enumerate(self.repr_loss):
            grad = f"{self.grad_norm[t]:.3e}" if t < len(self.grad_norm) else " " * 9
            moved = f"{self.moved[t]:.3e}" if t < len(self.moved) else " " * 9
            lines.append(f"{t:4d}   {loss:.3e}   {grad}   {moved}   {self.traveled[t]:.3e}")
        return "\n".join([*lines, self.verdict])


VISIBLE = 1e-3  # of the unit range, a step: less than that over all steps and Y0 is as good as YT


def diagnose(prediction: Prediction) -> Diagnosis:
    """Look at an inner loop: does the set move, does the representation loss fall, does anything explode?"""
    if prediction.repr_loss is None or prediction.grad_norm is None:
        raise ValueError("this prediction has no inner loop to look at: it comes from a one-shot decoder")
    state = torch.cat([prediction.elements, prediction.mask[..., None]], dim=-1).detach()
    scale = state[0, 0].numel() ** 0.5
    moved = (state.diff(dim=0).flatten(2).norm(dim=2) / scale).mean(dim=1).tolist()
    traveled = (prediction.traveled / scale).mean(dim=1).tolist()
    loss = prediction.repr_loss.mean(dim=1).tolist()
    norms = prediction.grad_norm.mean(dim=1).tolist()
    verdict = _problem(loss, norms, traveled)
    return Diagnosis(loss, norms, moved, traveled, verdict or "The set moves.", healthy=verdict is None)


def _problem(loss: list[float], norms: list[float], traveled: list[float]) -> str | None:
    if not norms:
        return "No steps were taken: there is nothing to see."
    if not all(torch.isfinite(torch.tensor([*loss, *norms, *traveled]))):
        return "The set explodes: values are no longer finite. Lower step_size, or set clip_norm (iDSPN uses 10)."
    if loss[-1] > 2 * loss[0] and loss[-1] > 1e-6:
        return "The representation loss rises: lower step_size or momentum, or set clip_norm (iDSPN uses 10)."
    if norms[0] == 0:
        return "The inner gradient is 0: the encoder's code does not depend on the set (dead units, or weights of 0)."
    if traveled[-1] < VISIBLE:
        return "The set hardly moves: raise step_size (suggest_step_size finds a start), or add momentum."
    return None


@torch.no_grad()
def suggest_step_size(
    model: Any, batch: Any, *, visible: float = 0.01, smallest: float = 2.0**-10, largest: float = 2.0**20
) -> float:
    """The paper's recipe for η: raise it until the set visibly moves between steps at random initialization.

    `model` is a DSPN and `batch` vectors z, or a SetPredictor and its inputs. η is doubled from `smallest` until an
    average step moves an average number of the set by `visible` (for features of about unit range). A step size after
    which the representation loss has risen is not gone beyond. The model is left as it was.
    """
    decoder = getattr(model, "decoder", model)
    if not hasattr(decoder, "step_size"):
        raise ValueError(f"a {type(decoder).__name__} takes no steps; step sizes are for DSPN")
    with evaluating(model):
        z: Tensor = model.encode(model.prepare(batch)) if decoder is not model else batch
        return _visible_step(decoder, z, visible, smallest, largest)


def _visible_step(decoder: Any, z: Tensor, visible: float, smallest: float, largest: float) -> float:
    eta, best = smallest, smallest
    while eta <= largest:
        seen = diagnose(decoder(z, step_size=eta))
        if not all(torch.isfinite(torch.tensor(seen.repr_loss))) or seen.repr_loss[-1] > seen.repr_loss[0]:
            return best
        best = eta
        if sum(seen.moved) / max(len(seen.moved), 1) >= visible:
            return eta
        eta *= 2
    raise ValueError(
        f"the set does not move even with step size {largest:g}: does the encoder's code depend on the set? "
        "print(diagnose(decoder(z))) shows its gradients."
    )
