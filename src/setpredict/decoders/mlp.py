"""The MLP baseline: all elements at once, as a list."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from setpredict.encoders import MLP, Code, as_code
from setpredict.sets import Prediction


class MLPDecoder(nn.Module):
    """z → hidden → … → N·(D + 1) numbers, read as N elements with one mask each.

    Args:
        latent: L, the length of z.
        max_size: N.
        features: D.
        hidden: Hidden layers.
        variable: Whether sets differ in size; False predicts no masks.
        mask_bias: Added to the masks, which the paper found crucial on MNIST (with 1): without it many outputs get
            stuck at the point (0, 0) with mask 0.

    >>> MLPDecoder(latent=64, max_size=342, features=2)(torch.zeros(4, 64))
    Prediction(4 sets of 342 elements with 2 features after 0 steps)
    """

    steps, needs, set_encoder = 0, ("vector",), None

    def __init__(
        self,
        latent: int,
        max_size: int,
        features: int,
        hidden: Sequence[int] = (256, 256),
        variable: bool = True,
        mask_bias: float = 0.0,
    ):
        super().__init__()
        self.max_size, self.variable, self.mask_bias = max_size, variable, mask_bias
        self.layers = MLP(latent, hidden, max_size * (features + variable))

    def forward(
        self, code: Code | Float[Tensor, "B L"], *, steps: int | None = None, keys: Tensor | None = None
    ) -> Prediction:
        outputs = self.layers(as_code(code).vector).unflatten(1, (self.max_size, -1))
        return one_shot(outputs, self.variable, self.mask_bias)


def one_shot(outputs: Float[Tensor, "B N C"], variable: bool, mask_bias: float) -> Prediction:
    """A trajectory of length one from a decoder's outputs, the mask last if sets vary in size."""
    if not variable:
        return Prediction(outputs[None], torch.ones_like(outputs[None, ..., 0]))
    return Prediction(outputs[None, ..., :-1], outputs[None, ..., -1] + mask_bias)
