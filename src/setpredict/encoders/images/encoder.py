"""ImageEncoder: a backbone, and a dense head on its feature map if there is one."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from setpredict.encoders.code import Code
from setpredict.encoders.images.dense import DenseHead


class ImageEncoder(nn.Module):
    """Images to a vector code and, with a dense head, the head's proposals.

    Args:
        backbone: A `ConvEncoder` or `ResNetEncoder`: `maps(images)` gives a feature map and a vector.
        head: The dense head.
        count: N, the number of proposals.
    """

    memory_format = torch.channels_last
    """Convolutions on a CPU take 1.8 to 3.4 times as long in the other one. Files keep the ordinary layout."""

    def __init__(self, backbone: nn.Module, head: DenseHead | None = None, count: int = 0):
        super().__init__()
        self.backbone, self.head, self.count = backbone, head, count
        backbone.to(memory_format=self.memory_format)  # pyright: ignore[reportCallIssue]

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Code:
        features, vector = self.backbone.maps(images.contiguous(memory_format=self.memory_format))
        if self.head is None:
            return Code(vector)
        dense = self.head(features)
        return Code(vector, self.head.proposals(dense, self.count), dense)
