"""A transformer decoder as in DETR (Carion et al. 2020): queries attend to each other and to the input's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from setpredict.core.errors import UserError
from setpredict.decoders.initial import SharedSet
from setpredict.decoders.queries import GaussianQueries, InputQueries
from setpredict.decoders.slots import read_out
from setpredict.encoders import MLP, Code, as_code
from setpredict.encoders.tokens import needed_tokens, padded_tokens, present
from setpredict.sets import Prediction

Queries = Literal["learned", "random", "input", "input+random"]


class TransformerDecoder(nn.Module):
    """T layers of self-attention between N queries and cross-attention to tokens, and an element from every query.

    Each layer has its own weights and is normalized before its parts. All layers share one output network, so that each
    gives a set and has a loss. There is no dropout and no encoder of the tokens: that is the input encoder's work.

    Args:
        channels: C, the numbers per token.
        max_size: N, the number of queries.
        features: D.
        steps: T, the number of layers.
        width: Numbers per query.
        heads: Attention heads; `width` is a multiple of it.
        hidden: Hidden layers of the feed-forward network in every layer.
        variable: Whether sets differ in size; False predicts no masks.
        queries: "learned" (DETR: query i is the i-th of a list), "random" (drawn per sample from one Gaussian), "input"
            (the elements of an input set, of which equal ones stay equal in every layer) or "input+random" (the same
            with random numbers added, as a position embedding does it).

    >>> decoder = TransformerDecoder(channels=3, max_size=5, features=2, steps=2)
    >>> decoder(Code(torch.zeros(4, 0), tokens=torch.rand(4, 7, 3)))
    Prediction(4 sets of 5 elements with 2 features after 2 steps)
    """

    needs, set_encoder = ("tokens",), None

    def __init__(
        self,
        channels: int,
        max_size: int,
        features: int,
        steps: int = 3,
        width: int = 64,
        heads: int = 4,
        hidden: Sequence[int] = (128,),
        variable: bool = True,
        queries: Queries = "learned",
    ):
        super().__init__()
        if steps < 1:
            raise UserError(f"a transformer needs at least 1 layer, got decoder.steps {steps}")
        if heads < 1 or width % heads:
            raise UserError(f"decoder.width must be a multiple of decoder.heads, got {width} and {heads}")
        self.max_size, self.variable, self.queries_are_input = max_size, variable, queries.startswith("input")
        self.tokens = nn.Linear(channels, width)
        self.queries = make_queries(queries, max_size, width, channels)
        self.layers = nn.ModuleList(Layer(width, heads, hidden) for _ in range(steps))
        self.norm = nn.LayerNorm(width)
        self.output = MLP(width, (width,), features + variable)

    @property
    def steps(self) -> int:
        """T, the number of layers."""
        return len(self.layers)

    @property
    def max_steps(self) -> int:
        """It cannot take more steps than it has layers."""
        return len(self.layers)

    def forward(
        self, code: Code | Float[Tensor, "B L"], *, steps: int | None = None, keys: Int[Tensor, " B"] | None = None
    ) -> Prediction:
        T = self.steps if steps is None else steps
        if self.steps < T:
            raise UserError(f"this transformer has {self.steps} layers and cannot take {T} steps")
        if self.steps > T and self.training and torch.is_grad_enabled():
            raise UserError(f"a transformer trains all of its {self.steps} layers, not {T} (few_steps_until must be 0)")
        code = as_code(code)
        given = needed_tokens(code)
        tokens, seen = self.tokens(given), present(given, code.token_mask)  # (B, P, W), (B, P)
        among = self._present_queries(code)
        x = self.queries(code, keys)  # (B, N, W)
        trajectory = [x.detach()]
        for layer in list(self.layers)[:T]:
            x = layer(x, tokens, among, seen)
            trajectory.append(x)
        return read_out(trajectory, lambda x: self.output(self.norm(x)), self.variable)

    def _present_queries(self, code: Code) -> Bool[Tensor, "B N"] | None:
        """Which queries the others may look at: not those of an input's padding."""
        return present(*padded_tokens(code, self.max_size)) if self.queries_are_input else None


def make_queries(kind: Queries, count: int, width: int, channels: int) -> nn.Module:
    """The queries of that name."""
    match kind:
        case "learned":
            return SharedSet(count, width, mask=None, scale=1.0)  # as in DETR: query i is the i-th of a list
        case "random":
            return GaussianQueries(count, width)
        case "input" | "input+random":
            return InputQueries(count, width, channels, noise=kind == "input+random")
    raise UserError(f"decoder.queries must be learned, random, input or input+random, got {kind!r}")


class Layer(nn.Module):
    """x + self-attention, + attention to the tokens, + a feed-forward network, each after a layer norm."""

    def __init__(self, width: int, heads: int, hidden: Sequence[int]):
        super().__init__()
        self.among, self.tokens = Attention(width, heads), Attention(width, heads)
        self.mlp = MLP(width, hidden, width)
        self.norm_among, self.norm_tokens, self.norm_mlp = (nn.LayerNorm(width) for _ in range(3))

    def forward(
        self,
        x: Float[Tensor, "B N W"],
        tokens: Float[Tensor, "B P W"],
        among: Bool[Tensor, "B N"] | None,
        seen: Bool[Tensor, "B P"],
    ) -> Float[Tensor, "B N W"]:
        y = self.norm_among(x)
        x = x + self.among(y, y, among)
        x = x + self.tokens(self.norm_tokens(x), tokens, seen)
        return x + self.mlp(self.norm_mlp(x))


class Attention(nn.Module):
    """Scaled dot-product attention with several heads."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(
        self, x: Float[Tensor, "B N W"], tokens: Float[Tensor, "B P W"], seen: Bool[Tensor, "B P"] | None
    ) -> Float[Tensor, "B N W"]:
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, N or P, W / H)
            for part in (self.query(x), self.key(tokens), self.value(tokens))
        )
        mask = None if seen is None else seen[:, None, None]
        return self.output(F.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2).flatten(2))
