"""Baselines for sets from sets that make one output element of every input element: Deep Sets and a BiLSTM."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from setpredict.core.errors import UserError
from setpredict.decoders.mlp import one_shot
from setpredict.encoders import Code, as_code
from setpredict.encoders.tokens import padded_tokens
from setpredict.sets import Prediction

LAYERS = 3


class ElementwiseDecoder(nn.Module):
    """Output element i from input element i and from all others.

    Deep Sets (Zaheer et al. 2017) see the others through their mean: the network is equivariant, so that equal elements
    have equal outputs. A BiLSTM reads the elements as a list, in which equal ones differ by their position.

    Args:
        channels: C, the numbers per input element.
        max_size: N; inputs have at most as many elements.
        features: D.
        network: "deep-sets" or "bilstm".
        hidden: Width of the network.
        variable: Whether sets differ in size: one more output per element is its mask.

    >>> decoder = ElementwiseDecoder(channels=4, max_size=6, features=10)
    >>> decoder(Code(torch.zeros(2, 0), tokens=torch.rand(2, 6, 4)))
    Prediction(2 sets of 6 elements with 10 features after 0 steps)
    """

    steps, needs, set_encoder = 0, ("tokens",), None

    def __init__(
        self,
        channels: int,
        max_size: int,
        features: int,
        network: Literal["deep-sets", "bilstm"] = "deep-sets",
        hidden: int = 256,
        variable: bool = False,
    ):
        super().__init__()
        kinds = {"deep-sets": DeepSets, "bilstm": BiLSTM}
        if network not in kinds:
            raise UserError(f"network must be one of {', '.join(kinds)}, got {network!r}")
        self.max_size, self.variable = max_size, variable
        self.network = kinds[network](channels, hidden)
        self.output = nn.Linear(hidden, features + variable)

    def forward(
        self, code: Code | Float[Tensor, "B L"], *, steps: int | None = None, keys: Tensor | None = None
    ) -> Prediction:
        x, mask = padded_tokens(as_code(code), self.max_size)  # (B, N, C), (B, N)
        return one_shot(self.output(self.network(x, mask)), self.variable, 0.0)


class DeepSets(nn.Module):
    """Equivariant layers: x_i ← ReLU(A x_i + B mean_j x_j)."""

    def __init__(self, channels: int, hidden: int):
        super().__init__()
        widths = [channels, *[hidden] * LAYERS]
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.others = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths))

    def forward(self, x: Float[Tensor, "B N C"], mask: Tensor) -> Float[Tensor, "B N H"]:
        weight = mask[..., None].to(x.dtype)  # (B, N, 1)
        count = weight.sum(dim=1, keepdim=True).clamp(min=1)
        for own, others in zip(self.own, self.others):
            mean = (x * weight).sum(dim=1, keepdim=True) / count  # (B, 1, C)
            x = torch.relu(own(x) + others(mean))
        return x


class BiLSTM(nn.Module):
    """A bidirectional LSTM over the elements as a list; padding stands behind them and is read too."""

    def __init__(self, channels: int, hidden: int):
        super().__init__()
        if hidden % 2:
            raise UserError(f"a BiLSTM needs an even width, half for each direction, got {hidden}")
        self.lstm = nn.LSTM(channels, hidden // 2, batch_first=True, bidirectional=True)

    def forward(self, x: Float[Tensor, "B N C"], mask: Tensor) -> Float[Tensor, "B N H"]:
        return self.lstm(x)[0]
