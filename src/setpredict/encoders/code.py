"""Code: what an input encoder makes of a batch of inputs, for a decoder to turn into sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from setpredict.encoders.images.dense import DenseOutput
from setpredict.sets import Sets


@dataclass(eq=False)
class Code:
    """The encoded inputs of B samples. A decoder names what it needs of them (`Decoder.needs`).

    >>> code = Code(torch.zeros(3, 8))
    >>> len(code), len(code[1:])
    (3, 2)
    """

    vector: Tensor
    """One latent vector z per sample, (B, L); (B, 0) where the decoder does not need it."""
    proposals: Sets | None = None
    """Images with a dense head: its best cells as sets, with gradients."""
    dense: DenseOutput | None = None
    """Images with a dense head: what it says of every cell, for its own loss."""
    tokens: Float[Tensor, "B P C"] | None = None
    """Where the decoder needs them: P parts of each input. Images: the cells of the feature map with a position
    embedding; sets: their elements; vectors: the latent vector as one token."""
    token_mask: Bool[Tensor, "B P"] | None = None
    """Sets: which tokens are elements and not padding (None: all)."""

    def __len__(self) -> int:
        return len(self.vector)

    def __getitem__(self, index: slice | Tensor) -> Code:
        """Some of the samples, without what a dense head says of every cell."""
        parts = {name: getattr(self, name) for name in ("proposals", "tokens", "token_mask")}
        return Code(self.vector[index], **{k: None if v is None else v[index] for k, v in parts.items()})

    @classmethod
    def cat(cls, codes: Sequence[Code]) -> Code:
        """The codes of several batches as one batch, without what a dense head says of every cell.

        >>> Code.cat([Code(torch.zeros(1, 8)), Code(torch.ones(2, 8))]).vector.shape
        torch.Size([3, 8])
        """
        code = cls(torch.cat([c.vector for c in codes]))
        proposals = [c.proposals for c in codes if c.proposals is not None]
        if proposals:
            code.proposals = Sets(torch.cat([p.elements for p in proposals]), torch.cat([p.mask for p in proposals]))
        tokens = [c.tokens for c in codes if c.tokens is not None]
        masks = [c.token_mask for c in codes if c.token_mask is not None]
        code.tokens = torch.cat(tokens) if tokens else None
        code.token_mask = torch.cat(masks) if masks else None
        return code


def as_code(code: Code | Tensor) -> Code:
    """A plain tensor (B, L) is a vector code, so that `decoder(encoder(elements, mask))` stays one line."""
    return code if isinstance(code, Code) else Code(code)
