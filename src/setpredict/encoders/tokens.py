"""Tokens: the parts of an input that decoders with attention look at, beside or instead of one vector."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from setpredict.encoders.code import Code
from setpredict.sets import Mask


class SetTokens(nn.Module):
    """Input sets to a code whose tokens are their elements, as they are.

    Args:
        encoder: The set encoder of the vector; None where the decoder needs tokens only.

    >>> SetTokens()(torch.rand(4, 10, 3)).tokens.shape
    torch.Size([4, 10, 3])
    """

    def __init__(self, encoder: nn.Module | None = None):
        super().__init__()
        self.encoder = encoder

    def forward(self, elements: Float[Tensor, "B N D"], mask: Mask | None = None) -> Code:
        vector = elements.new_zeros(elements.shape[0], 0) if self.encoder is None else self.encoder(elements, mask)
        return Code(vector, tokens=elements, token_mask=None if mask is None else mask > 0.5)


class VectorTokens(nn.Module):
    """Inputs (vectors, or sets with their mask) to a code whose only token is the latent vector of `encoder`."""

    def __init__(self, encoder: nn.Module):
        super().__init__()
        self.encoder = encoder

    def forward(self, *input: Tensor | None) -> Code:
        vector = self.encoder(*input)
        return Code(vector, tokens=vector[:, None])


class PositionEmbedding(nn.Module):
    """Adds to every cell of a feature map a learned linear function of its place: (x, y, 1 − x, 1 − y).

    As in Slot Attention. The cells of an h×w map are then h·w tokens.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.place = nn.Linear(4, channels)

    def forward(self, features: Float[Tensor, "B C h w"]) -> Float[Tensor, "B P C"]:
        h, w = features.shape[2:]
        x = torch.linspace(0, 1, w, dtype=features.dtype, device=features.device).expand(h, w)
        y = torch.linspace(0, 1, h, dtype=features.dtype, device=features.device)[:, None].expand(h, w)
        places = torch.stack([x, y, 1 - x, 1 - y], dim=-1)  # (h, w, 4)
        return (features.permute(0, 2, 3, 1) + self.place(places)).flatten(1, 2)


def present(tokens: Float[Tensor, "B P C"], mask: Bool[Tensor, "B P"] | None) -> Bool[Tensor, "B P"]:
    """Which tokens attention may look at; of an empty set all, which are zeros, so that attention is defined."""
    if mask is None:
        return torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
    return mask | ~mask.any(dim=1, keepdim=True)


def padded_tokens(code: Code, count: int) -> tuple[Float[Tensor, "B N C"], Bool[Tensor, "B N"]]:
    """The tokens of a code padded to `count` with zeros, and which of them are not padding."""
    tokens = needed_tokens(code)
    extra = count - tokens.shape[1]
    if extra < 0:
        raise ValueError(f"the input has {tokens.shape[1]} elements, more than the {count} of the output")
    mask = code.token_mask
    mask = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device) if mask is None else mask
    return F.pad(tokens, (0, 0, 0, extra)), F.pad(mask, (0, extra))


def needed_tokens(code: Code) -> Float[Tensor, "B P C"]:
    """The tokens of a code; raises if it has none."""
    if code.tokens is None:
        raise ValueError("this decoder needs tokens, and the code has none")
    return code.tokens
