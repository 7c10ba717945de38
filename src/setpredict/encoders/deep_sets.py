"""The MLP set encoder: a network on every element, then a pooling over the set (MNIST in the paper)."""

from __future__ import annotations

from setpredict.encoders.first_layer import ElementLayer
from setpredict.encoders.set_encoder import SetEncoder


class DeepSetEncoder(SetEncoder):
    """g(Y) = pool_i( MLP([y_i, m_i]) / N ): a set of up to N elements with D features to L numbers.

    Args:
        features: D, the features of an element.
        latent: L, the length of the code.
        max_size: N, the largest number of elements.
        hidden: Hidden layers of the network.
        pool: fspool, fspool-free (one free weight per rank), sum, mean or max.
        pieces: Pieces of FSPool's piecewise-linear weight.
        mask: How the mask enters: as one more feature, as a factor (weight), or as a filter.
        normalize: Divide by the number of elements with padding, which keeps the code's scale independent of it.
        mask_sum: Make the last of the L numbers four times the mean of the masks.
        init: How linear layers are initialized, as in `MLP`.

    >>> import torch
    >>> encoder = DeepSetEncoder(features=2, latent=64, max_size=342)
    >>> encoder(torch.rand(32, 342, 2), torch.ones(32, 342)).shape
    torch.Size([32, 64])
    """

    first_layer = ElementLayer()
