"""The LSTM baseline: one element after another."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from setpredict.decoders.mlp import one_shot
from setpredict.encoders import Code, as_code
from setpredict.encoders.mlp import xavier
from setpredict.sets import Prediction, Sets


class LSTMDecoder(nn.Module):
    """z is mapped to the first cell state; N steps on zero inputs give N elements with one mask each.

    Args:
        latent: L, the length of z.
        max_size: N, the number of outputs.
        features: D.
        hidden: The width of the LSTM.
        variable: Whether sets differ in size: one more output per element is its mask.
        mask_bias: Added to the masks before they are clamped to [0, 1].

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
        cell = self.cell(z)[None]
        hidden, _ = self.lstm(z.new_zeros(len(z), self.max_size, 1), (cell * 0, cell))
        return one_shot(self.output(hidden), self.variable, self.mask_bias)

    def target_loss(self, target: Sets, code: Code | Tensor) -> None:
        return None
