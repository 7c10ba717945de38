"""The body of the built-in set encoders: a network on rows of the set, then a pooling over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from setpredict.encoders.first_layer import FirstLayer
from setpredict.encoders.masks import MaskRole, append_mask_sum, mask_inputs, split_mask
from setpredict.encoders.mlp import MLP, Init
from setpredict.encoders.pooling import Pooling, make_pool
from setpredict.sets import Mask


class SetEncoder(nn.Module):
    """g(Y) = pool_r( MLP(row_r(Y)) / R ) over R rows; the subclasses say what a row is, and nothing else.

    Their docstrings explain the arguments; R counts the rows of the padded set.
    """

    first_layer: ClassVar[FirstLayer]

    def __init__(
        self,
        features: int,
        latent: int,
        max_size: int,
        hidden: Sequence[int] = (256, 256),
        pool: Pooling = "fspool",
        pieces: int = 20,
        mask: MaskRole = "feature",
        normalize: bool = True,
        mask_sum: bool = False,
        init: Init = "xavier",
    ):
        super().__init__()
        self.features, self.latent, self.max_size = features, latent, max_size
        self.mask_role: MaskRole = mask
        self.normalize, self.mask_sum = normalize, mask_sum
        channels = latent - mask_sum
        self.network = MLP(self.first_layer.inputs(features + mask_inputs(mask)), hidden, channels, init)
        self.pool = make_pool(pool, channels, self.first_layer.rows(max_size), pieces)

    def forward(self, elements: Float[Tensor, "B N D"], mask: Mask | None = None) -> Float[Tensor, "B L"]:
        inputs, weight, keep = split_mask(elements, mask, self.mask_role)
        first, *rest = self.network
        assert isinstance(first, nn.Linear)
        x = self.first_layer(first, inputs)  # (B, R, H)
        for layer in rest:
            x = layer(x)  # (B, R, C)
        if weight is not None:
            x = x * self.first_layer.combine(weight)[..., None]
        if self.normalize:
            x = x / max(x.shape[1], 1)
        code = self.pool(x, None if keep is None else self.first_layer.combine(keep))
        return append_mask_sum(code, mask, elements) if self.mask_sum else code
