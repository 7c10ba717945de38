"""What attention starts from, if not from parameters: random queries, or the input's own elements."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from setpredict.decoders.initial import RandomSet
from setpredict.encoders import Code
from setpredict.encoders.tokens import padded_tokens


class GaussianQueries(nn.Module):
    """mean + scale · noise, with a mean and a scale per feature that are learned and shared by all N queries.

    The noise is drawn per sample from its key; evaluation without keys uses stored noise, the same for all samples.
    """

    def __init__(self, count: int, width: int):
        super().__init__()
        self.mean = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, width))[0])
        self.log_scale = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, width))[0])
        self.noise = RandomSet(count, width, mask=None, scale=1.0)

    def forward(self, code: Code, keys: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B N W"]:
        return self.mean + self.log_scale.exp() * self.noise(code, keys)


class InputQueries(nn.Module):
    """One query per element of the input set, a linear function of it: equal elements have equal queries.

    With `noise`, random numbers are added to them, which tells equal elements apart.
    """

    def __init__(self, count: int, width: int, channels: int, noise: bool):
        super().__init__()
        self.count = count
        self.project = nn.Linear(channels, width)
        self.noise = GaussianQueries(count, width) if noise else None

    def forward(self, code: Code, keys: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B N W"]:
        queries = self.project(padded_tokens(code, self.count)[0])
        return queries if self.noise is None else queries + self.noise(code, keys)
