"""A small residual image encoder for small images and small data sets."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from setpredict.core.batch_parts import pad_rows
from setpredict.core.errors import UserError
from setpredict.encoders.images.resnet import BasicBlock

LAST_SIDE = 4
"""The map that becomes a vector is at most this wide and high."""


class ConvEncoder(nn.Module):
    """A square RGB image in [0, 1] to L numbers, by residual stages of stride 2 and a linear layer on the last map.

    A 5×5 stem of stride 2 sees the image and two more channels, the x and y coordinates of every pixel. Each further
    stage halves the map and has the next of `widths` channels; the last width is repeated until the map is 4×4 or
    smaller. ImageNet's stem (7×7 of stride 2 and a max pooling) would leave a 2×2 map of a 64-pixel image, on which
    positions and attributes of small objects are lost.

    Args:
        latent: L.
        image_size: Side of the image in pixels.
        widths: Channels of the stem and of the stages.
        stride: Image pixels per cell of the map that `maps` returns: 4, 8 or 16.
        vector: Whether to make a vector at all; without it, the network ends with that map.

    >>> encoder = ConvEncoder(latent=128, image_size=64)
    >>> encoder(torch.rand(2, 3, 64, 64)).shape
    torch.Size([2, 128])
    >>> encoder.maps(torch.rand(2, 3, 64, 64))[0].shape
    torch.Size([2, 96, 8, 8])
    """

    coordinates: Tensor

    def __init__(
        self,
        latent: int,
        image_size: int = 64,
        widths: Sequence[int] = (32, 48, 96, 128),
        stride: int = 8,
        vector: bool = True,
    ):
        super().__init__()
        if image_size < 16:
            raise UserError(f"image_size must be at least 16 pixels, got {image_size}")
        if len(widths) < 2 or any(width < 1 for width in widths):
            raise UserError(f"widths must be two or more channel counts above 0, got {' '.join(map(str, widths))}")
        self.image_size, self.stride = image_size, stride
        self.stem = nn.Sequential(
            nn.Conv2d(5, widths[0], 5, stride=2, padding=2, bias=False),
            nn.BatchNorm2d(widths[0]),
            nn.ReLU(inplace=True),
        )
        stages, side, channels, scale, rest = [], -(-image_size // 2), widths[0], 2, list(widths[1:])
        self.map_channels = 0
        while (rest or side > LAST_SIDE) if vector else scale < stride:
            outputs = rest.pop(0) if rest else channels
            stages.append(BasicBlock(channels, outputs, stride=2))
            side, channels, scale = -(-side // 2), outputs, 2 * scale
            if scale == stride:
                self.map_channels = channels
        if not self.map_channels:
            raise UserError(f"stride must be a power of two from 4 to {scale} for these widths, got {stride}")
        self.stages = nn.ModuleList(stages)
        self.tail = nn.Linear(channels * side * side, latent) if vector else None
        if self.tail is not None:
            nn.init.xavier_uniform_(self.tail.weight)
            nn.init.zeros_(self.tail.bias)
        axis = torch.linspace(-1, 1, image_size, dtype=torch.float64).float()  # the same on every machine, to the bit
        grid = torch.stack([axis[None, :].expand(image_size, -1), axis[:, None].expand(-1, image_size)])
        self.register_buffer("coordinates", grid, persistent=False)  # (2, S, S)

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B L"]:
        return self.maps(images)[1]

    def maps(self, images: Float[Tensor, "B 3 H W"]) -> tuple[Float[Tensor, "B C h w"], Float[Tensor, "B L"]]:
        """The feature map with one cell per `stride` pixels, and the vector, (B, 0) if there is none."""
        S = self.image_size
        if images.shape[-2:] != (S, S):
            raise ValueError(f"this encoder takes {S}×{S} images, got {images.shape[-2]}×{images.shape[-1]}")
        grid = self.coordinates.to(images.dtype).expand(images.shape[0], -1, -1, -1)
        x = torch.cat([images, grid], dim=1).contiguous(memory_format=_format_of(images))
        x, scale, dense = self.stem(x), 2, None
        for stage in self.stages:
            x, scale = stage(x), 2 * scale
            if scale == self.stride:
                dense = x
        assert dense is not None
        if self.tail is None:
            return dense, x.new_zeros(x.shape[0], 0)
        return dense, self.tail(pad_rows(x.flatten(1)))[: x.shape[0]]


def _format_of(images: Tensor) -> torch.memory_format:
    last = images.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format
