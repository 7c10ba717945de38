"""DSPN: decode a vector into a set by gradient descent through a set encoder (Algorithm 1 of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from setpredict.decoders.inner.descent import check_steps, descend
from setpredict.decoders.fast.objective import FastObjective, has_fast_step
from setpredict.decoders.initial import Initial, PredictedSet, RandomSet, SharedSet
from setpredict.decoders.inner.objective import ReprLoss, ReprObjective, representation_loss
from setpredict.sets import NotFinite, Prediction, Sets

HALF = (torch.float16, torch.bfloat16)
MaskKind = Literal["clamp", "sigmoid", "free", "none"]
"""clamp: kept in [0, 1] (the paper). sigmoid: of a free number. free: a feature like any other (iDSPN).
none: sets of fixed size."""


class DSPN(nn.Module):
    """Y ← Y − η ∂L_repr(g(Y), z)/∂Y for T steps from Y0, where g is `encoder`; the way is the Prediction.

    The defaults are the paper's. iDSPN is `steps=20, step_size=1, loss="squared", momentum=0.9, nesterov=True,
    clip_norm=10, mask="free", initial="random", backprop_steps=1, implicit=True`. `fast=False` computes the inner
    gradients of the built-in encoders like everybody's, by `torch.func`; `recompute` makes their backward compute again
    what it would otherwise keep of every step: about 4/3 of the time, for memory that hardly grows with T. Masks of Y0
    begin at ½, or at `initial_mask`.

    >>> from setpredict.encoders import DeepSetEncoder
    >>> decoder = DSPN(DeepSetEncoder(features=2, latent=64, max_size=342), max_size=342, features=2)
    >>> sum(p.numel() for p in decoder.parameters())  # the whole MNIST auto-encoder
    85634
    >>> decoder(torch.randn(4, 64)).final
    Sets(4 sets of up to 342 elements with 2 features, sizes ...)
    """

    def __init__(
        self,
        encoder: nn.Module,
        max_size: int,
        features: int,
        *,
        steps: int = 10,
        step_size: float = 25.0,
        loss: ReprLoss = "huber",
        momentum: float = 0.0,
        nesterov: bool = False,
        clip_norm: float | None = None,
        mask: MaskKind = "clamp",
        initial: Initial = "learned",
        initial_scale: float = 0.1,
        initial_hidden: Sequence[int] = (256, 256),
        initial_mask: float | None = None,
        seed: int = 0,
        latent: int | None = None,
        penalty: float = 0.0,
        project: Callable[[Tensor], Tensor] | None = None,
        stop_below: float | None = None,
        backprop_steps: int | None = None,
        implicit: bool = False,
        fast: bool = True,
        recompute: bool = False,
    ):
        super().__init__()
        self.encoder = encoder
        self.fast, self.recompute = fast, recompute
        self.max_size, self.features = max_size, features
        self.steps, self.step_size = steps, step_size
        self.loss: ReprLoss = loss
        self.momentum, self.nesterov, self.clip_norm = momentum, nesterov, clip_norm
        self.mask_kind: MaskKind = mask
        self.penalty, self.project, self.stop_below = penalty, project, stop_below
        self.backprop_steps, self.implicit = backprop_steps, implicit
        self.initial_kind: Initial = initial
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be from 0 to below 1, got {momentum}")
        if not 0 < step_size < float("inf"):
            raise ValueError(f"step_size must be above 0, got {step_size}")
        if nesterov and not momentum:
            raise ValueError("nesterov=True needs a momentum above 0, got momentum=0")
        check_steps(steps, backprop_steps, implicit, clip_norm)
        self._refuse_untrained_start(steps)
        start = {"clamp": 0.5, "sigmoid": 0.0, "free": 0.5, "none": None}
        if mask not in start:
            raise ValueError(f"mask must be one of {', '.join(start)}, got {mask!r}")
        if initial_mask is not None and mask != "none":
            start[mask] = initial_mask
        match initial:
            case "learned" | "fixed":
                self.initial = SharedSet(max_size, features, start[mask], learned=initial == "learned")
            case "random":
                drawn = mask == "free"
                self.initial = RandomSet(max_size, features, None if drawn else start[mask], drawn, initial_scale, seed)
            case "predicted":
                width = latent if latent is not None else getattr(encoder, "latent", None)
                if width is None:
                    raise ValueError("initial='predicted' needs to know the length of z: pass latent=L")
                self.initial = PredictedSet(width, max_size, features, start[mask], initial_hidden)
            case _:
                raise ValueError(f"initial must be learned, fixed, random or predicted, got {initial!r}")

    def forward(
        self,
        z: Float[Tensor, "B L"],
        *,
        steps: int | None = None,
        step_size: float | None = None,
        stop_below: float | None = None,
        keys: Int[Tensor, " B"] | None = None,
        start: Sets | None = None,
    ) -> Prediction:
        """Decode z, with another number of steps, step size or threshold than the module's if given.

        `keys` draw a random initial set for each sample; `start` is an initial set of the caller's own.
        """
        steps = self.steps if steps is None else steps
        self._refuse_untrained_start(steps)
        with _as_loop(self.encoder), torch.autocast(z.device.type, enabled=False):
            z = _full_precision(z)  # the inner gradients are tiny: half precision would lose them
            if any(p.dtype in HALF for p in self.encoder.parameters()):
                raise ValueError("weights must be float32 or float64 here; for half precision use torch.autocast")
            state = self.initial(z, keys) if start is None else self._state_of(start, z)
            way = descend(
                self._objective(state, z),
                state,
                steps=steps,
                step_size=self.step_size if step_size is None else step_size,
                momentum=self.momentum,
                nesterov=self.nesterov,
                clip_norm=self.clip_norm,
                penalty=self.penalty,
                project=self._project,
                stop_below=self.stop_below if stop_below is None else stop_below,
                backprop_steps=self.backprop_steps,
                implicit=self.implicit,
            )
        elements, mask = self._read(way.states)
        if mask is None:
            mask = torch.ones_like(elements[..., 0])
        return Prediction(elements, mask, way.losses, way.grad_norms, way.steps_taken, way.grad_from)

    def target_loss(self, target: Sets, z: Float[Tensor, "B L"]) -> Float[Tensor, " B"]:
        """L_repr(Y, z) of the true set, which the outer loss draws to 0 where g is not the input encoder."""
        with torch.autocast(z.device.type, enabled=False):
            z = _full_precision(z)
            target = target.pad_to(self.max_size).to(z.dtype)
            mask = None if self.mask_kind == "none" else target.mask.to(z.dtype)
            return representation_loss(self.encoder(target.elements, mask), z, self.loss)

    def _objective(self, state: Tensor, z: Tensor) -> ReprObjective | FastObjective:
        """L_repr of a state: by hand where the encoder is one of ours, else with any encoder's own derivatives."""
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
        """Back into what is allowed: masks into [0, 1], elements by the caller's projection."""
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

    def _refuse_untrained_start(self, steps: int) -> None:
        if self.backprop_steps is None or self.backprop_steps >= steps:
            return
        if self.training and self.initial_kind in ("learned", "predicted"):
            raise ValueError(
                f"initial={self.initial_kind!r} gets no gradient: only the last {self.backprop_steps} of {steps} steps "
                "are differentiated. Use initial='random' or 'fixed', or backprop_steps=None."
            )

    def extra_repr(self) -> str:
        return f"steps={self.steps}, step_size={self.step_size}, mask={self.mask_kind}, initial={self.initial_kind}"


class _as_loop:
    """Refuses set encoders that change their own buffers: the loop would change them T times a forward pass."""

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


def _full_precision(z: Tensor) -> Tensor:
    if z.ndim != 2:
        raise ValueError(f"z must have shape (B, L), got {tuple(z.shape)}")
    if not bool(torch.isfinite(z).all()):
        b, i = torch.nonzero(~torch.isfinite(z))[0].tolist()
        raise NotFinite(f"the vector to decode of sample {b} is {z[b, i].item()} at position {i}")
    return z.float() if z.dtype in HALF else z
