"""Where the inner loop starts: the initial set Y0, learned, constant, noise, predicted from z, dense, or the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from setpredict.core import rng
from setpredict.core.batch_parts import pad_rows
from setpredict.core.errors import UserError
from setpredict.encoders import MLP, Code
from setpredict.encoders.masks import MASK_SUM
from setpredict.encoders.precision import full_precision
from setpredict.encoders.tokens import padded_tokens

Initial = Literal["learned", "learned-normal", "fixed", "random", "sized", "predicted", "dense", "input"]
MaskKind = Literal["clamp", "sigmoid", "free", "none"]
"""clamp: kept in [0, 1] (the paper). sigmoid: of a free number. free: a feature like any other (iDSPN).
none: sets of fixed size."""
MASK_START: dict[str, float | None] = {"clamp": 0.5, "sigmoid": 0.0, "free": 0.5, "none": None}
"""Where masks start, in the tensor that the inner loop changes."""


def initial_set(
    kind: Initial,
    max_size: int,
    features: int,
    mask: MaskKind,
    *,
    latent: int | None = None,
    scale: float = 0.1,
    hidden: Sequence[int] = (256, 256),
    mask_bias: float = 0.0,
    inputs: Sequence[float] = (),
) -> nn.Module:
    """The initial set of that name, whose masks start where `mask` has them.

    A random one has standard deviation `scale`, and so has "learned-normal" before training. A predicted one needs the
    length of z, `latent`; `hidden` are its layers, and masks start around `mask_bias` if that is not 0. The input as
    initial set needs a factor for each feature of its elements, `inputs`; the other features start at random.
    """
    if mask not in MASK_START:
        raise UserError(f"mask must be one of {', '.join(MASK_START)}, got {mask!r}")
    start = MASK_START[mask]
    match kind:
        case "learned" | "fixed":
            return SharedSet(max_size, features, start, learned=kind == "learned")
        case "learned-normal":
            return SharedSet(max_size, features, start, scale=scale, draw_mask=mask == "free")
        case "random":
            return RandomSet(max_size, features, start, draw_mask=mask == "free", scale=scale)
        case "sized":
            if mask == "none":
                raise UserError("initial 'sized' is for sets that differ in size, and these have a fixed size")
            return SizedSet(max_size, features, mask)
        case "predicted":
            if latent is None:
                raise ValueError("initial='predicted' needs the length of z: pass latent=L")
            start = mask_bias if mask_bias and start is not None else start
            return PredictedSet(latent, max_size, features, start, hidden)
        case "dense":
            return DenseSet(mask)
        case "input":
            return InputSet(max_size, features, inputs, mask, scale)
    raise UserError(
        f"initial must be learned, learned-normal, fixed, random, sized, predicted, dense or input, got {kind!r}"
    )


class SharedSet(nn.Module):
    """One initial set for all samples: elements uniform in [0, 1), masks as given; learned (the paper) or fixed.

    With `scale`, elements (and masks, with `draw_mask`) are scale · N(0, 1) instead (the release of iDSPN).

    Args:
        size: N.
        features: D.
        mask: Where all masks start (None: sets of fixed size, without masks).
        learned: A parameter of the model, or a constant.
        scale: Standard deviation of normal elements (None: uniform ones).
        draw_mask: Draw the masks like every feature, instead of starting at `mask`.

    >>> SharedSet(size=8, features=2, mask=0.5)(Code(torch.zeros(4, 64))).shape  # the mask is the last feature
    torch.Size([4, 8, 3])
    """

    def __init__(
        self,
        size: int,
        features: int,
        mask: float | None,
        learned: bool = True,
        scale: float | None = None,
        draw_mask: bool = False,
    ):
        super().__init__()
        values = torch.rand(size, features) if scale is None else scale * torch.randn(size, features + draw_mask)
        if mask is not None and not draw_mask:
            values = torch.cat([values, torch.full((size, 1), mask)], dim=1)
        if learned:
            self.values = nn.Parameter(values)
        else:
            self.register_buffer("values", values)

    def forward(self, code: Code, keys: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B N C"]:
        return self.values.to(full_precision(code.vector).dtype).expand(code.vector.shape[0], -1, -1)


class RandomSet(nn.Module):
    """scale · N(0, 1), drawn per sample from its key alone, so that no sample depends on its batch (iDSPN).

    Without keys, training draws fresh ones, and evaluation uses one stored set for all samples. Masks start at `mask`,
    or are drawn like every feature with `draw_mask`.

    Args:
        size: N.
        features: D.
        mask: Where all masks start (None: sets of fixed size, without masks).
        draw_mask: Draw the masks like every feature, instead of starting at `mask`.
        scale: Standard deviation.
        seed: Of the set that evaluation uses.

    >>> RandomSet(size=8, features=2, mask=None)(Code(torch.zeros(4, 64)), keys=torch.arange(4)).shape
    torch.Size([4, 8, 2])
    """

    evaluation: Tensor

    def __init__(
        self, size: int, features: int, mask: float | None, draw_mask: bool = False, scale: float = 0.1, seed: int = 0
    ):
        super().__init__()
        self.shape = (size, features + draw_mask)
        self.mask, self.scale = None if draw_mask else mask, scale
        only = torch.from_numpy(rng.item_keys(rng.key(seed, "initial set"), np.zeros(1)).astype(np.int64))
        self.register_buffer("evaluation", self._draw(only)[0].float())

    def forward(self, code: Code, keys: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B N C"]:
        if keys is None and self.training:
            keys = torch.randint(2**62, (len(code),))
        values = self.evaluation.repeat(code.vector.shape[0], 1, 1) if keys is None else self._draw(keys)
        values = values.to(code.vector)
        if self.mask is None:
            return values
        return torch.cat([values, torch.full_like(values[..., :1], self.mask)], dim=-1)

    def _draw(self, keys: Int[Tensor, " B"]) -> Tensor:
        """Drawn in float64 on the CPU: not every device has float64, and all must get the same numbers."""
        if keys.is_floating_point():
            raise ValueError(f"keys must be whole numbers, one per sample, got {keys.dtype}")
        N, C = self.shape
        return self.scale * torch.from_numpy(rng.normal(keys.cpu().numpy().astype(np.uint64), N * C)).view(-1, N, C)

    def version_1(self) -> Float[Tensor, "N C"]:
        """The set that version 0.1 used in evaluation, which its weights did not hold."""
        N, C = self.shape
        with np.errstate(over="ignore"):
            bits = np.arange(2 * N * C, dtype=np.uint64) * np.uint64(0x1E3779B97F4A7C15)
            for shift, factor in ((30, 0x3F58476D1CE4E5B9), (27, 0x14D049BB133111EB)):
                bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
            uniform = torch.from_numpy(((bits ^ (bits >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53)
        u, v = uniform.chunk(2)
        normal = (-2 * torch.log1p(-u)).sqrt() * torch.cos(2 * torch.pi * v)
        return self.scale * normal.view(N, C).to(self.evaluation)


class SizedSet(nn.Module):
    """Noise of the right size: the last number of z says how many elements there are (`mask_sum` of the set encoder).

    The first n elements are uniform in [0, 1), the same for every sample, with masks of 1. The others are as padding
    is: zeros, with masks of 0. The inner loop moves the noise and leaves padding and masks in place, so that sets have
    their size from the first step on.

    Args:
        size: N.
        features: D.
        mask: How masks are kept.

    >>> code = Code(torch.tensor([[0.3, 2.0], [0.1, 1.0]]))  # MASK_SUM = 4 times the mean of the masks is the last
    >>> SizedSet(size=8, features=2, mask="clamp")(code)[..., -1].sum(dim=1)
    tensor([4., 2.])
    """

    noise: Tensor

    def __init__(self, size: int, features: int, mask: MaskKind):
        super().__init__()
        self.mask: MaskKind = mask
        self.register_buffer("noise", torch.rand(size, features))

    def forward(self, code: Code, keys: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B N C"]:
        z, N = code.vector, len(self.noise)
        sizes = (z[:, -1:] * (N / MASK_SUM)).round()  # (B, 1)
        present = (torch.arange(N, device=z.device) < sizes).to(z.dtype)[..., None]  # (B, N, 1)
        mask = torch.logit(present, eps=1e-4) if self.mask == "sigmoid" else present
        return torch.cat([self.noise.to(z.dtype) * present, mask], dim=-1)

    def moving(self, state: Float[Tensor, "B N C"]) -> Float[Tensor, "B N C"]:
        """1 for the features of the elements that are present, which the inner loop moves, and 0 for all else."""
        present = (state[..., -1:] > (0 if self.mask == "sigmoid" else 0.5)).to(state.dtype)
        return torch.cat([present.expand_as(state[..., :-1]), torch.zeros_like(present)], dim=-1)


class PredictedSet(nn.Module):
    """Predicted from z by an MLP, for the inner loop to refine (section 6 of the paper); masks start around `mask`.

    Args:
        latent: L, the length of z.
        size: N.
        features: D.
        mask: Added to the predicted masks (None: sets of fixed size, without masks).
        hidden: Hidden layers of the MLP.

    >>> PredictedSet(latent=64, size=8, features=2, mask=0.5, hidden=(32,))(Code(torch.zeros(4, 64))).shape
    torch.Size([4, 8, 3])
    """

    def __init__(self, latent: int, size: int, features: int, mask: float | None, hidden: Sequence[int]):
        super().__init__()
        self.size, self.mask = size, mask
        self.network = MLP(latent, hidden, size * (features + (mask is not None)))

    def forward(self, code: Code, keys: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B N C"]:
        values = self.network(pad_rows(code.vector))[: code.vector.shape[0]].unflatten(1, (self.size, -1))
        if self.mask is None:
            return values
        return torch.cat([values[..., :-1], values[..., -1:] + self.mask], dim=-1)

    @torch.no_grad()
    def begin_with(self, values: Float[Tensor, "N C"]) -> None:
        """Predict this set for every z until training changes it."""
        last = self.network[-1]
        assert isinstance(last, nn.Linear)
        if len(values) != self.size or values.numel() != last.out_features:
            raise ValueError(f"the predicted set has {last.out_features} numbers, the given one {values.numel()}")
        values = values.clone()
        if self.mask is not None:
            values[:, -1] -= self.mask
        last.weight.zero_()
        last.bias.copy_(values.flatten())


class DenseSet(nn.Module):
    """The proposals of a dense head: predicted by convolutions instead of an MLP, for the inner loop to refine."""

    def __init__(self, mask: MaskKind):
        super().__init__()
        self.mask: MaskKind = mask

    def forward(self, code: Code, keys: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B N C"]:
        if code.proposals is None:
            raise ValueError("initial='dense' needs an image encoder with a dense head: the code has no proposals")
        elements, mask = code.proposals.elements, code.proposals.mask
        if self.mask == "none":
            return elements
        mask = torch.logit(mask, eps=1e-4) if self.mask == "sigmoid" else mask
        return torch.cat([elements, mask[..., None]], dim=-1)


class InputSet(nn.Module):
    """The elements of the input set as the first features of Y0; the others start as in `RandomSet`.

    For outputs that extend their inputs, such as a number for every element. Masks start at 1, and at 0 for padding.

    Args:
        size: N, at least the number of input elements.
        features: D.
        factors: One factor per feature of an input element, of which there are at most D.
        mask: How masks are kept.
        scale: Standard deviation of the features that are not in the input.
    """

    factors: Tensor

    def __init__(self, size: int, features: int, factors: Sequence[float], mask: MaskKind, scale: float = 0.1):
        super().__init__()
        rest = features - len(factors)
        if not factors or rest < 0:
            raise UserError(f"initial 'input' needs input elements of 1 to {features} features, got {len(factors)}")
        self.size, self.mask = size, mask
        self.register_buffer("factors", torch.tensor(factors, dtype=torch.float32), persistent=False)
        self.rest = RandomSet(size, rest, mask=None, scale=scale) if rest else None

    def forward(self, code: Code, keys: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B N C"]:
        tokens, present = padded_tokens(code, self.size)
        parts = [tokens.to(code.vector) * self.factors.to(code.vector)]
        if self.rest is not None:
            parts.append(self.rest(code, keys))
        if self.mask != "none":
            start = present.to(code.vector)[..., None]
            parts.append(torch.logit(start, eps=1e-4) if self.mask == "sigmoid" else start)
        return torch.cat(parts, dim=-1)
