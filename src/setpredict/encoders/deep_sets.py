"""The MLP set encoder: a network on every element, then a pooling over the set (MNIST in the paper)."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from setpredict.encoders.masks import MaskRole, append_mask_sum, enter, mask_inputs
from setpredict.encoders.mlp import MLP
from setpredict.encoders.pooling import Pooling, make_pool
from setpredict.sets import Mask


class DeepSetEncoder(nn.Module):
    """g(Y) = pool_i( MLP([y_i, m_i]) / N ): a set of up to N elements with D features to L numbers.

    `normalize` is the paper's division by the (padded) set size, which keeps the code's scale independent of it.
    `mask_sum` makes the last of the L numbers four times the mean of the masks.

    >>> import torch
    >>> encoder = DeepSetEncoder(features=2, latent=64, max_size=342)
    >>> encoder(torch.rand(32, 342, 2), torch.ones(32, 342)).shape
    torch.Size([32, 64])
    """

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
    ):
        super().__init__()
        self.features, self.latent, self.max_size = features, latent, max_size
        self.mask_role: MaskRole = mask
        self.normalize, self.mask_sum = normalize, mask_sum
        channels = latent - mask_sum
        self.elements = MLP(features + mask_inputs(mask), hidden, channels)
        self.pool = make_pool(pool, channels, max_size, pieces)

    def forward(self, elements: Float[Tensor, "B N D"], mask: Mask | None = None) -> Float[Tensor, "B L"]:
        inputs, weight, keep = enter(elements, mask, self.mask_role)
        x = self.elements(inputs)  # (B, N, C)
        if weight is not None:
            x = x * weight[..., None]
        if self.normalize:
            x = x / max(elements.shape[1], 1)
        code = self.pool(x, keep)
        return append_mask_sum(code, mask, elements) if self.mask_sum else code
