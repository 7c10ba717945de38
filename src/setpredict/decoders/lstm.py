"""The LSTM baseline: one element after another."""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from setpredict.core.loops import State, traced_loop
from setpredict.core.modes import is_tracing
from setpredict.decoders.mlp import one_shot
from setpredict.encoders import Code, as_code
from setpredict.encoders.mlp import xavier
from setpredict.sets import Prediction


class LSTMDecoder(nn.Module):
    """z is mapped to the first cell state; N steps on zero inputs give N elements with one mask each.

    Args:
        latent: L, the length of z.
        max_size: N, the number of outputs.
        features: D.
        hidden: The width of the LSTM.
        variable: Whether sets differ in size: one more output per element is its mask.
        mask_bias: Added to the masks.

    >>> import torch
    >>> LSTMDecoder(latent=64, max_size=10, features=18)(torch.zeros(4, 64))
    Prediction(4 sets of 10 elements with 18 features after 0 steps)
    """

    steps, needs, set_encoder = 0, ("vector",), None

    def __init__(
        self,
        latent: int,
        max_size: int,
        features: int,
        hidden: int = 256,
        variable: bool = True,
        mask_bias: float = 0.0,
    ):
        super().__init__()
        self.max_size, self.variable, self.mask_bias = max_size, variable, mask_bias
        self.cell = nn.Linear(latent, hidden)
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.output = nn.Linear(hidden, features + variable)
        self.apply(xavier)

    def forward(
        self, code: Code | Float[Tensor, "B L"], *, steps: int | None = None, keys: Tensor | None = None
    ) -> Prediction:
        z = as_code(code).vector
        cell = self.cell(z)
        hidden = self._traced(cell) if is_tracing() else self._hidden(cell)
        return one_shot(self.output(hidden), self.variable, self.mask_bias)

    def _hidden(self, cell: Float[Tensor, "B H"]) -> Float[Tensor, "B N H"]:
        """The hidden states of the N steps."""
        return self.lstm(cell.new_zeros(len(cell), self.max_size, 1), ((cell * 0)[None], cell[None]))[0]

    def _traced(self, cell: Float[Tensor, "B H"]) -> Float[Tensor, "B N H"]:
        """The same in a trace, which holds one step."""
        weights = cast(tuple[Tensor, ...], tuple(self.lstm._flat_weights))

        def step(state: State) -> tuple[State, State]:
            return torch.lstm_cell(torch.zeros_like(state[0][:, :1]), state, *weights), ()

        (hidden, _), _ = traced_loop(step, (cell * 0, cell), self.max_size)  # (N, B, H)
        return hidden.transpose(0, 1)
