"""The relation network: a network on every ordered pair of elements, then a pooling (CLEVR in the paper)."""

from __future__ import annotations

from setpredict.encoders.first_layer import PairLayer
from setpredict.encoders.set_encoder import SetEncoder


class RelationEncoder(SetEncoder):
    """g(Y) = pool_{i,j}( MLP([y_i, m_i, y_j, m_j]) / N² ): a set of up to N elements with D features to L numbers.

    Args:
        features, latent, max_size, hidden, pool, pieces, mask, mask_sum, init: As in `DeepSetEncoder`.
        normalize: Divide by the number of pairs, which keeps the code's scale independent of it.

    >>> import torch
    >>> encoder = RelationEncoder(features=18, latent=512, max_size=10, hidden=(512,))
    >>> encoder(torch.rand(4, 10, 18), torch.ones(4, 10)).shape
    torch.Size([4, 512])
    """

    first_layer = PairLayer()
