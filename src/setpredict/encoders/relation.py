"""The relation network: a network on every ordered pair of elements, then a pooling (CLEVR in the paper)."""

from __future__ import annotations

from setpredict.encoders.first_layer import PairLayer
from setpredict.encoders.set_encoder import SetEncoder


class RelationEncoder(SetEncoder):
    """g(Y) = pool_{i,j}( MLP([y_i, m_i, y_j, m_j]) / N² ): a set of up to N elements with D features to L numbers.

    Args:
        features: D, the features of an element.
        latent: L, the length of the code.
        max_size: N, the largest number of elements.
        hidden: Hidden layers of the network.
        pool: fspool, fspool-free (one free weight per rank), sum, mean or max.
        pieces: Pieces of FSPool's piecewise-linear weight.
        mask: How the mask enters: as one more feature, as a factor (weight), or as a filter.
        normalize: Divide by the number of pairs, which keeps the code's scale independent of it.
        mask_sum: Make the last of the L numbers four times the mean of the masks.
        init: How linear layers are initialized, as in `MLP`.

    >>> import torch
    >>> encoder = RelationEncoder(features=18, latent=512, max_size=10, hidden=(512,))
    >>> encoder(torch.rand(4, 10, 18), torch.ones(4, 10)).shape
    torch.Size([4, 512])
    """

    first_layer = PairLayer()
