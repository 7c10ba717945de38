"""DSPN: decode a vector into a set by gradient descent through a set encoder (Algorithm 1 of the paper)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from setpredict.config import Gradient, GradientDescent, Unrolled
from setpredict.config.inner import parse_gradient
from setpredict.core.errors import NotFinite, UserError
from setpredict.core.modes import is_tracing
from setpredict.decoders.fast.objective import FastObjective, has_fast_step
from setpredict.decoders.initial import MASK_START, DenseSet, Initial, InputSet, MaskKind, SizedSet, initial_set
from setpredict.decoders.inner.descent import descend
from setpredict.decoders.inner.objective import Objective, ReprLoss, ReprObjective, representation_loss
from setpredict.encoders import Code, as_code
from setpredict.encoders.precision import HALF, full_precision
from setpredict.sets import Prediction, Sets


class DSPN(nn.Module):
    """Y ← Y − η ∂L_repr(g(Y), z)/∂Y for T steps from Y0, where g is `encoder`.

    The defaults are the paper's. iDSPN is
    `DSPN(encoder, initial="random", solver=GradientDescent(20, 1.0, momentum=0.9, nesterov=True, clip_norm=10),
    gradient=Implicit(), loss="squared", mask="free")`.

    Args:
        encoder: g, the set encoder: elements (B, N, D) and a mask (B, N) or None to codes (B, L).
        max_size: N (None: the encoder's own).
        features: D (None: the encoder's own).
        initial: Y0: "learned", "learned-normal", "fixed", "random", "sized", "predicted" or "dense", or a module from
            (code, keys) to a state (B, N, C): elements, with the mask as last feature unless sets have a fixed size.
        solver: Steps, step size, momentum, clipping, penalty and when to stop.
        gradient: How to differentiate through the loop: `Unrolled()`, `LastSteps(k)` or `Implicit()`, or "unrolled",
            "last:k" or "implicit".
        loss: The representation loss, "huber" or "squared".
        mask: How masks are kept: "clamp", "sigmoid", "free", or "none" for sets of fixed size.
        learned_steps: Learn one factor of the step size per feature (and mask): those of features that the initial set
            already has right can go to 0.
        held: How many of the first features stay where the initial set has them.
        project: Applied to the elements after every step, such as a clamp to the unit box.
        fast: Use the hand-derived step for the built-in encoders; False computes their inner gradients like everybody
            else's, by `torch.func`.
        recompute: Recompute in the backward pass what it would otherwise keep of every step: a little slower, for
            memory that grows slowly with T.

    >>> from setpredict.encoders import DeepSetEncoder
    >>> decoder = DSPN(DeepSetEncoder(features=2, latent=64, max_size=342))
    >>> sum(p.numel() for p in decoder.parameters())  # the whole MNIST auto-encoder
    85634
    >>> decoder(torch.randn(4, 64)).final
    Sets(4 sets of up to 342 elements with 2 features, sizes ...)
    """

    def __init__(
        self,
        encoder: nn.Module,
        max_size: int | None = None,
        features: int | None = None,
        *,
        initial: Initial | nn.Module = "learned",
        solver: GradientDescent | None = None,
        gradient: Gradient | str | None = None,
        loss: ReprLoss = "huber",
        mask: MaskKind = "clamp",
        learned_steps: bool = False,
        held: int = 0,
        project: Callable[[Tensor], Tensor] | None = None,
        fast: bool = True,
        recompute: bool = False,
    ):
        super().__init__()
        self.encoder = encoder
        self.max_size = _known(max_size, encoder, "max_size")
        self.features = _known(features, encoder, "features")
        self.solver = solver or GradientDescent()
        self.gradient = parse_gradient(gradient) if isinstance(gradient, str) else gradient or Unrolled()
        self.loss: ReprLoss = loss
        self.mask_kind: MaskKind = mask
        self.project, self.fast, self.recompute = project, fast, recompute
        if mask not in MASK_START:
            raise UserError(f"mask must be one of {', '.join(MASK_START)}, got {mask!r}")
        if loss not in get_args(ReprLoss):
            raise UserError(f"loss must be one of {', '.join(get_args(ReprLoss))}, got {loss!r}")
        if isinstance(initial, str):
            latent = _known(None, encoder, "latent") if initial == "predicted" else None
            initial = initial_set(initial, self.max_size, self.features, mask, latent=latent)
        if isinstance(initial, SizedSet) and getattr(encoder, "mask_sum", True) is False:
            raise UserError("initial='sized' reads the size of a set from its code: the encoder needs mask_sum=True")
        self.initial = initial
        self.step_scale = nn.Parameter(torch.ones(self.features + (mask != "none"))) if learned_steps else None
        if not 0 <= held <= self.features:
            raise UserError(f"held must be from 0 to the number of features, {self.features}, got {held}")
        self.held = held
        self._check_initial_is_trained(self.solver)

    @property
    def steps(self) -> int:
        """T."""
        return self.solver.steps

    @property
    def needs(self) -> tuple[str, ...]:
        """Vectors, and the proposals of a dense head or the input's elements if the initial set is made of them."""
        if isinstance(self.initial, InputSet):
            return ("vector", "tokens")
        return ("vector", "proposals") if isinstance(self.initial, DenseSet) else ("vector",)

    @property
    def set_encoder(self) -> nn.Module:
        """g."""
        return self.encoder

    def forward(
        self,
        code: Code | Float[Tensor, "B L"],
        *,
        steps: int | None = None,
        keys: Int[Tensor, " B"] | None = None,
        solver: GradientDescent | None = None,
        start: Sets | None = None,
    ) -> Prediction:
        """Decode.

        Args:
            code: The vectors z to decode.
            steps: T, instead of the solver's.
            keys: One key per sample for a random initial set.
            solver: Another solver than the module's.
            start: Another initial set than the module's.
        """
        solver = solver or self.solver
        solver = solver if steps is None else replace(solver, steps=steps)
        self._check_initial_is_trained(solver)
        code = as_code(code)
        with _Unchanged(self.encoder), torch.autocast(code.vector.device.type, enabled=False):
            code = replace(code, vector=_checked(code.vector))  # half precision would lose the inner gradients
            z = code.vector
            if any(p.dtype in HALF for p in self.encoder.parameters()):
                raise ValueError("weights must be float32 or float64 here; for half precision use torch.autocast")
            state = self._initial_state(code, keys) if start is None else self._state_of(start, z)
            scale = None if self.step_scale is None else self.step_scale.to(z.dtype)
            if self.held:
                moves = torch.arange(state.shape[-1], device=z.device) >= self.held  # (C,)
                scale = moves.to(z.dtype) if scale is None else scale * moves
            if isinstance(self.initial, SizedSet):
                moves = self.initial.moving(state)
                scale = moves if scale is None else scale * moves
            objective = self._objective(state, z)
            with objective.threads() if isinstance(objective, FastObjective) else nullcontext():
                found = descend(objective, state, solver, self.gradient, project=self._project, scale=scale)
        elements, mask = self._read(found.states)
        if mask is None:
            mask = torch.ones_like(elements[..., 0])
        taken = None if solver.stop_below is None else found.steps_taken
        return Prediction(elements, mask, found.losses, found.grad_norms, taken, found.grad_from)

    def target_loss(self, target: Sets, code: Code | Float[Tensor, "B L"]) -> Float[Tensor, " B"]:
        """L_repr(Y, z) of the true set, which the outer loss minimizes where g is not the input encoder."""
        z = as_code(code).vector
        with torch.autocast(z.device.type, enabled=False):
            z = _checked(z)
            target = target.pad_to(self.max_size).to(z.dtype)
            mask = None if self.mask_kind == "none" else target.mask.to(z.dtype)
            return representation_loss(self.encoder(target.elements, mask), z, self.loss)

    def _objective(self, state: Tensor, z: Tensor) -> Objective:
        """L_repr of a state: hand-derived if the encoder is a built-in one, else by automatic differentiation."""
        if self.fast and has_fast_step(self.encoder, state, z, self.mask_kind):
            return FastObjective(self.encoder, z, self.loss, self.max_size, self.recompute)  # pyright: ignore
        return ReprObjective(self.encoder, z, self.loss, self._read)

    def _read(self, state: Tensor) -> tuple[Tensor, Tensor | None]:
        """The elements and mask in the tensor that the loop changes."""
        if self.mask_kind == "none":
            return state, None
        elements, mask = state[..., :-1], state[..., -1]
        return elements, mask.sigmoid() if self.mask_kind == "sigmoid" else mask

    def _project(self, state: Tensor) -> Tensor:
        """Masks into [0, 1], elements by the caller's projection."""
        if self.mask_kind != "clamp" and self.project is None:
            return state
        if self.mask_kind == "none":
            return self.project(state) if self.project else state
        elements, mask = state[..., :-1], state[..., -1:]
        if self.project is not None:
            elements = self.project(elements)
        if self.mask_kind == "clamp":
            mask = mask.clamp(0, 1)
        return torch.cat([elements, mask], dim=-1)

    def _initial_state(self, code: Code, keys: Tensor | None) -> Tensor:
        state = self.initial(code, keys)
        N, C = self.max_size, self.features + (self.mask_kind != "none")
        expected = (code.vector.shape[0], N, C)  # not len(code), which a trace would take for a constant
        if state.shape != expected:  # somebody's own
            raise ValueError(f"the initial set must have shape {expected}, got {tuple(state.shape)}")
        return state

    def _state_of(self, start: Sets, z: Tensor) -> Tensor:
        if start.elements.shape != (len(z), self.max_size, self.features):
            expected = (len(z), self.max_size, self.features)
            raise ValueError(f"start must have elements of shape {expected}, got {tuple(start.elements.shape)}")
        start = start.check_finite("initial set").to(z.dtype)
        if self.mask_kind == "none":
            return start.elements
        state = start.features_with_mask
        if self.mask_kind == "sigmoid":
            return torch.cat([state[..., :-1], torch.logit(state[..., -1:], eps=1e-6)], dim=-1)
        return state

    def _check_initial_is_trained(self, solver: GradientDescent) -> None:
        """A learned or predicted initial set must get a gradient, or DDP hangs and nothing is learned."""
        steps, last = solver.steps, self.gradient.differentiated(solver.steps)
        learned = self.training and torch.is_grad_enabled() and any(p.requires_grad for p in self.initial.parameters())
        if learned and last < steps and not solver.penalty:
            raise UserError(
                f"the initial set gets no gradient: only the last {last} of {steps} steps are differentiated. "
                "Use a random or fixed initial set, a penalty, which pulls sets towards it (iDSPN's release: 0.1, "
                "averaged), or differentiate through all steps (gradient unrolled)."
            )

    def extra_repr(self) -> str:
        return f"solver={self.solver}, gradient={self.gradient}, mask={self.mask_kind}"


class _Unchanged:
    """Raises for set encoders that change their own buffers: the loop would change them T times per forward pass."""

    def __init__(self, encoder: nn.Module):
        self.encoder = encoder

    def __enter__(self) -> None:
        for name, module in self.encoder.named_modules():
            if module.training and getattr(module, "track_running_stats", False):
                raise ValueError(
                    f"the set encoder's layer {name or 'itself'!r} ({type(module).__name__}) changes its running "
                    "statistics in training mode, which the inner loop cannot allow. Use LayerNorm or no norm there, "
                    "or call .eval() on that layer."
                )
        self.versions = {name: buffer._version for name, buffer in self._buffers()}

    def __exit__(self, kind, error, trace) -> None:
        changed = [name for name, buffer in self._buffers() if buffer._version != self.versions.get(name)]
        if error is not None and "would mutate a captured Tensor" in str(error):
            changed = list(self.versions)
        if changed:
            raise ValueError(
                f"the set encoder ({type(self.encoder).__name__}) changes its buffer {' or '.join(changed)} while it "
                "runs; the inner loop runs it many times and needs encoders that change nothing."
            ) from error

    def _buffers(self):
        return [(n, b) for n, b in self.encoder.named_buffers() if not b.is_inference()]


def _known(value: int | None, encoder: nn.Module, name: str) -> int:
    """The value, or the attribute of that name of a built-in set encoder."""
    found = getattr(encoder, name, None) if value is None else value
    if not isinstance(found, int):
        raise ValueError(f"{name} must be given: the set encoder {type(encoder).__name__} does not say it")
    return found


def _checked(z: Tensor) -> Tensor:
    """The vectors to decode in full precision; raises if they are not finite."""
    if z.ndim != 2:
        raise ValueError(f"z must have shape (B, L), got {tuple(z.shape)}")
    if not is_tracing() and not bool(torch.isfinite(z).all()):
        b, i = torch.nonzero(~torch.isfinite(z))[0].tolist()
        raise NotFinite(f"the vector to decode of sample {b} is {z[b, i].item()} at position {i}")
    return full_precision(z)
