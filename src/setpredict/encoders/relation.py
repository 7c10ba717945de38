"""The relation network over all ordered pairs of elements, with a pooling over the pairs (CLEVR in the paper)."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from setpredict.encoders.masks import MaskRole, append_mask_sum, enter, mask_inputs
from setpredict.encoders.mlp import MLP
from setpredict.encoders.pooling import Pooling, make_pool
from setpredict.sets import Mask


class RelationEncoder(nn.Module):
    """g(Y) = pool_{i,j}( MLP([y_i, m_i, y_j, m_j]) / N² ): the options are those of the MLP set encoder.

    The first layer is linear in the pair, so it is computed once an element and added a pair: W[yi, yj] = W₁yi + W₂yj.

    >>> import torch
    >>> encoder = RelationEncoder(features=18, latent=512, max_size=10)
    >>> encoder(torch.rand(4, 10, 18), torch.ones(4, 10)).shape
    torch.Size([4, 512])
    """

    def __init__(
        self,
        features: int,
        latent: int,
        max_size: int,
        hidden: Sequence[int] = (512,),
        pool: Pooling = "fspool",
        pieces: int = 20,
        mask: MaskRole = "feature",
        normalize: bool = True,
        mask_sum: bool = False,
    ):
        super().__init__()
        if not hidden:
            raise ValueError("the relation network needs at least one hidden layer, got hidden=()")
        self.features, self.latent, self.max_size = features, latent, max_size
        self.mask_role: MaskRole = mask
        self.normalize, self.mask_sum = normalize, mask_sum
        channels = latent - mask_sum
        self.pairs = MLP(2 * (features + mask_inputs(mask)), hidden, channels)
        self.pool = make_pool(pool, channels, max_size**2, pieces)

    def forward(self, elements: Float[Tensor, "B N D"], mask: Mask | None = None) -> Float[Tensor, "B L"]:
        N = elements.shape[1]
        inputs, weight, keep = enter(elements, mask, self.mask_role)
        first, *rest = self.pairs
        assert isinstance(first, nn.Linear)
        left, right = first.weight.chunk(2, dim=1)
        x = (inputs @ left.T + first.bias)[:, :, None] + (inputs @ right.T)[:, None, :]  # (B, N, N, H)
        for layer in rest:
            x = layer(x)
        x = x.flatten(1, 2)  # (B, N², C)
        if weight is not None:
            x = x * (weight[:, :, None] * weight[:, None, :]).flatten(1)[..., None]
        if self.normalize:
            x = x / max(N * N, 1)
        pairs = None if keep is None else (keep[:, :, None] & keep[:, None, :]).flatten(1)
        code = self.pool(x, pairs)
        return append_mask_sum(code, mask, elements) if self.mask_sum else code
