"""Code: what an input encoder makes of a batch of inputs, for a decoder to turn into sets."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from setpredict.encoders.images.dense import DenseOutput
from setpredict.sets import Sets


@dataclass(eq=False)
class Code:
    """The encoded inputs of B samples. A decoder names what it needs of them (`Decoder.needs`)."""

    vector: Tensor
    """One latent vector z per sample, (B, L)."""
    proposals: Sets | None = None
    """Images with a dense head: its best cells as sets, with gradients."""
    dense: DenseOutput | None = None
    """Images with a dense head: what it says of every cell, for its own loss."""

    def __len__(self) -> int:
        return len(self.vector)


def as_code(code: Code | Tensor) -> Code:
    """A plain tensor (B, L) is a vector code, so that `decoder(encoder(elements, mask))` stays one line."""
    return code if isinstance(code, Code) else Code(code)
