"""A multi-layer perceptron on the last axis: for vectors, for the elements of sets, for decoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from torch import Tensor, nn

from setpredict.core.errors import UserError

Init = Literal["xavier", "torch"]


class MLP(nn.Sequential):
    """Linear layers with ReLU between, with Xavier-uniform weights and zero biases as in the paper, or PyTorch's own.

    Args:
        inputs: The length of the last axis of the input.
        hidden: The sizes of the hidden layers.
        outputs: The length of the last axis of the output.
        init: xavier, or torch for PyTorch's default.

    >>> import torch
    >>> MLP(3, [256, 256], 64)(torch.zeros(2, 3)).shape
    torch.Size([2, 64])
    """

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int, init: Init = "xavier"):
        if any(size < 1 for size in hidden):
            raise UserError(f"hidden layers need at least 1 unit, got {' '.join(map(str, hidden))}")
        if init not in get_args(Init):
            raise UserError(f"init must be one of {', '.join(get_args(Init))}, got {init!r}")
        layers: list[nn.Module] = []
        for size in hidden:
            layers += [nn.Linear(inputs, size), nn.ReLU()]
            inputs = size
        super().__init__(*layers, nn.Linear(inputs, outputs))
        if init == "xavier":
            self.apply(xavier)

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input)


def xavier(layer: nn.Module) -> None:
    """Xavier-uniform weights and zero biases, in every linear and convolution layer."""
    if isinstance(layer, nn.Linear | nn.Conv2d):
        nn.init.xavier_uniform_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
