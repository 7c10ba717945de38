"""The MLP set encoder: a network on every element, then a pooling over the set (MNIST in the paper)."""

from __future__ import annotations

from setpredict.encoders.first_layer import ElementLayer
from setpredict.encoders.set_encoder import SetEncoder


class DeepSetEncoder(SetEncoder):
    """g(Y) = pool_i( MLP([y_i, m_i]) / N ): a set of up to N elements with D features to L numbers.

    >>> import torch
    >>> encoder = DeepSetEncoder(features=2, latent=64, max_size=342)
    >>> encoder(torch.rand(32, 342, 2), torch.ones(32, 342)).shape
    torch.Size([32, 64])
    """

    first_layer = ElementLayer()
