"""ImageEncoder: a backbone, and a dense head on its feature map if there is one."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from setpredict.encoders.code import Code
from setpredict.encoders.images.conv import ConvEncoder
from setpredict.encoders.images.dense import DenseHead
from setpredict.encoders.images.resnet import ResNetEncoder
from setpredict.encoders.tokens import PositionEmbedding


class ImageEncoder(nn.Module):
    """Images to a code: a vector, the cells of the feature map as tokens, and with a dense head its proposals.

    Args:
        backbone: A `ConvEncoder` or `ResNetEncoder`: `maps(images)` gives a feature map and a vector.
        head: The dense head.
        count: N, the number of proposals.
        tokens: Whether the decoder needs tokens.
    """

    memory_format = torch.channels_last
    """Convolutions on a CPU take 1.8 to 3.4 times as long in the other one. Files keep the ordinary layout."""

    def __init__(
        self, backbone: ConvEncoder | ResNetEncoder, head: DenseHead | None = None, count: int = 0, tokens: bool = False
    ):
        super().__init__()
        self.backbone, self.head, self.count = backbone, head, count
        self.positions = PositionEmbedding(backbone.map_channels) if tokens else None
        # torch 2.13 on a CPU writes beyond its buffers for convolutions with fewer than 8 channels in channels_last.
        narrowest = min(layer.out_channels for layer in backbone.modules() if isinstance(layer, nn.Conv2d))
        self.layout = self.memory_format if narrowest >= 8 else torch.contiguous_format
        backbone.to(memory_format=self.layout)  # pyright: ignore[reportCallIssue]

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Code:
        features, vector = self.backbone.maps(images.contiguous(memory_format=self.layout))
        code = Code(vector, tokens=None if self.positions is None else self.positions(features))
        if self.head is not None:
            dense = self.head(features)
            code.dense, code.proposals = dense, self.head.proposals(dense, self.count)
        return code
