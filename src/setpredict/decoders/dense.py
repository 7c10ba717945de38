"""The dense head alone as a decoder: its proposals are the predicted set."""

from __future__ import annotations

from torch import Tensor, nn

from setpredict.encoders import Code
from setpredict.sets import Prediction


class DenseDecoder(nn.Module):
    """The proposals of the dense head: its best cells, merged into one element per object, at most N.

    It has no parameters and passes no gradients back: the head is trained by its own loss. On images it is the baseline
    that a set decoder must beat.
    """

    steps, needs, set_encoder = 0, ("proposals",), None

    def forward(self, code: Code, *, steps: int | None = None, keys: Tensor | None = None) -> Prediction:
        if code.proposals is None:
            raise ValueError("this code has no proposals: the input encoder has no dense head")
        found = code.proposals.detach()
        return Prediction(found.elements[None], found.mask[None])
