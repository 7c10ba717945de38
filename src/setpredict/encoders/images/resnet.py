"""ResNet image encoders, with torchvision's parameter names and the tails of DSPN and iDSPN."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from setpredict.core.errors import UserError
from setpredict.encoders.mlp import xavier

BLOCKS = {10: (1, 1, 1, 1), 18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the colors of ImageNet's images, which networks trained on it expect as 0 and 1."""


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)) + shortcut)


class ResNetEncoder(nn.Module):
    """A square RGB image in [0, 1] to L numbers: a ResNet without its pooling and classifier, then a tail.

    The feature map of an S×S image is S/32 wide. `tail="dspn"` (the paper): 3×3 stride-2 convolution, batch norm, and a
    convolution to L whose kernel covers the rest of the map (2×2 at 128 pixels), without ReLU. `tail="idspn"`: batch
    norm, 2×2 stride-2 convolution, flattened to L.

    Args:
        latent: L.
        image_size: S, the side of the image in pixels.
        depth: 10 (one block per stage), 18 or 34.
        width: Channels of the first stage: fewer than the paper's 64 are for machines without a GPU.
        tail: How the feature map becomes a vector.
        stem: ImageNet's stem, or one of stride 2 without max pooling for images under 128 pixels.
        stride: Pixels per cell of the feature map that a dense head, slots or a transformer see.
        pretrained: For weights from ImageNet (`load_pretrained`): images are normalized as they expect it, and the
            statistics of batch norms before the tail stay as they are.
        freeze: Keep the weights of the stem, or of the stem and all stages.
        vector: Whether there is a tail; without it, the network ends with the feature map.

    >>> ResNetEncoder(latent=512, image_size=64, depth=18, width=8)(torch.rand(2, 3, 64, 64)).shape
    torch.Size([2, 512])
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        latent: int,
        image_size: int = 128,
        depth: int = 34,
        width: int = 64,
        tail: Literal["dspn", "idspn"] = "dspn",
        stem: Literal["imagenet", "small"] = "imagenet",
        stride: int = 8,
        pretrained: bool = False,
        freeze: Literal["none", "stem", "stages"] = "none",
        vector: bool = True,
    ):
        super().__init__()
        if depth not in BLOCKS:
            raise UserError(f"depth must be 10, 18 or 34, got {depth}")
        if image_size < 64:
            raise UserError(f"image_size must be at least 64 pixels, got {image_size}")
        if stem not in ("imagenet", "small"):
            raise UserError(f"stem must be imagenet or small, got {stem!r}")
        self.image_size, self.depth, self.stem, self.stride = image_size, depth, stem, stride
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        shrink = 32 if stem == "imagenet" else 16
        side = -(-image_size // shrink)  # each halving rounds up
        strides = {shrink // 8 * 2**i: width * 2**i for i in range(4)}  # pixels per cell → channels
        if stride not in strides:
            raise UserError(f"stride must be one of {', '.join(map(str, strides))} for this ResNet, got {stride}")
        self.map_channels = strides[stride]
        self.stages = 4 if vector else list(strides).index(stride) + 1
        channels = width
        for i, count in enumerate(BLOCKS[depth][: self.stages]):
            outputs = width * 2**i
            blocks = [
                BasicBlock(channels if j == 0 else outputs, outputs, 1 + (i > 0 and j == 0)) for j in range(count)
            ]
            self.add_module(f"layer{i + 1}", nn.Sequential(*blocks))
            channels = outputs
        self.tail = None
        if not vector:
            pass
        elif tail == "dspn":
            left = -(-side // 2)
            self.tail = nn.Sequential(
                nn.Conv2d(channels, channels, 3, stride=2, padding=1),
                nn.BatchNorm2d(channels),
                nn.Conv2d(channels, latent, left),
                nn.Flatten(),
            )
        elif tail == "idspn":
            left = side // 2
            if latent % left**2:
                raise UserError(
                    f"tail='idspn' divides the latent over {left}×{left} cells: {latent} is not a multiple of {left**2}"
                )
            self.tail = nn.Sequential(
                nn.BatchNorm2d(channels), nn.Conv2d(channels, latent // left**2, 2, stride=2), nn.Flatten()
            )
        else:
            raise UserError(f"tail must be 'dspn' or 'idspn', got {tail!r}")
        self.apply(xavier)
        self.pretrained = pretrained
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(3, 1, 1), persistent=False)
        for part in self.body[: {"none": 0, "stem": 2, "stages": 6}[freeze]]:
            part.requires_grad_(False)

    @property
    def body(self) -> list[nn.Module]:
        """What weights from elsewhere are for: the stem and the stages."""
        return [self.conv1, self.bn1, *(self.get_submodule(f"layer{i + 1}") for i in range(self.stages))]

    def train(self, mode: bool = True) -> ResNetEncoder:
        super().train(mode)
        if self.pretrained:
            for part in self.body:
                for layer in part.modules():
                    if isinstance(layer, nn.BatchNorm2d):
                        layer.eval()
        return self

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B L"]:
        return self.maps(images)[1]

    def maps(self, images: Float[Tensor, "B 3 H W"]) -> tuple[Float[Tensor, "B C h w"], Float[Tensor, "B L"]]:
        """The feature map with one cell per `stride` pixels, and the vector, (B, 0) if there is none."""
        if images.shape[-2:] != (self.image_size, self.image_size):
            S, H, W = self.image_size, *images.shape[-2:]
            raise ValueError(f"this encoder takes {S}×{S} images, got {H}×{W}")
        if self.pretrained:
            images = (images - self.mean) / self.std
        x = self.relu(self.bn1(self.conv1(images)))
        x, scale = (self.maxpool(x), 4) if self.stem == "imagenet" else (x, 2)
        dense = x
        for i in range(self.stages):
            x, scale = self.get_submodule(f"layer{i + 1}")(x), scale * (2 if i else 1)
            if scale == self.stride:
                dense = x
        return dense, x.new_zeros(x.shape[0], 0) if self.tail is None else self.tail(x)
