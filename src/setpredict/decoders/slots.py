"""Slot Attention (Locatello et al. 2020) as a decoder: slots compete for the tokens of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from setpredict.core.errors import UserError
from setpredict.core.loops import State, traced_loop
from setpredict.core.modes import is_tracing
from setpredict.decoders.queries import GaussianQueries
from setpredict.encoders import MLP, Code, as_code
from setpredict.encoders.tokens import needed_tokens
from setpredict.sets import Prediction

EPSILON = 1e-8
"""Added to the attention before it is normalized over tokens: no slot divides by 0."""


class SlotDecoder(nn.Module):
    """T iterations of attention from N slots to tokens, and an element from every slot.

    Attention is normalized over the slots, so that they compete for tokens. An iteration is
    s ← GRU(Σ_p a_p v_p / Σ_p a_p, s), then s ← s + MLP(s), with the same weights each time. Initial slots are drawn
    from one Gaussian with a learned mean and scale, per sample: nothing tells slots apart but chance, so the decoder
    does not depend on their order, and T can differ at evaluation.

    Args:
        channels: C, the numbers per token.
        max_size: N, the number of slots.
        features: D.
        steps: T, the number of iterations.
        width: Numbers per slot.
        hidden: Hidden layers of the MLP of an iteration.
        variable: Whether sets differ in size; False predicts no masks.

    >>> decoder = SlotDecoder(channels=3, max_size=5, features=2)
    >>> decoder(Code(torch.zeros(4, 0), tokens=torch.rand(4, 7, 3)))
    Prediction(4 sets of 5 elements with 2 features after 3 steps)
    """

    needs, set_encoder = ("tokens",), None

    def __init__(
        self,
        channels: int,
        max_size: int,
        features: int,
        steps: int = 3,
        width: int = 64,
        hidden: Sequence[int] = (128,),
        variable: bool = True,
    ):
        super().__init__()
        if steps < 1:
            raise UserError(f"slot attention needs at least 1 iteration, got decoder.steps {steps}")
        self.steps, self.width, self.variable = steps, width, variable
        self.inputs = nn.Sequential(nn.LayerNorm(channels), MLP(channels, (width,), width), nn.LayerNorm(width))
        self.slots = GaussianQueries(max_size, width)
        self.attention = SlotAttention(width, hidden)
        self.output = MLP(width, (width,), features + variable)

    def forward(
        self, code: Code | Float[Tensor, "B L"], *, steps: int | None = None, keys: Int[Tensor, " B"] | None = None
    ) -> Prediction:
        code = as_code(code)
        inputs = self.inputs(needed_tokens(code))  # (B, P, W)
        key, value = self.attention.key(inputs), self.attention.value(inputs)
        slots = self.slots(code, keys)  # (B, N, W)
        trajectory, T = [slots.detach()], self.steps if steps is None else steps
        if is_tracing() and T:

            def step(state: State) -> tuple[State, State]:
                return (self.attention(state[0], key, value, code.token_mask),), ()

            trajectory += traced_loop(step, (slots,), T)[0][0].unbind()
            return read_out(trajectory, self.output, self.variable)
        for _ in range(T):
            slots = self.attention(slots, key, value, code.token_mask)
            trajectory.append(slots)
        return read_out(trajectory, self.output, self.variable)


class SlotAttention(nn.Module):
    """One iteration: attention over the slots, then a GRU and an MLP for each of them."""

    def __init__(self, width: int, hidden: Sequence[int]):
        super().__init__()
        self.norm, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.gru = nn.GRUCell(width, width)
        self.mlp = MLP(width, hidden, width)

    def forward(
        self,
        slots: Float[Tensor, "B N W"],
        key: Float[Tensor, "B P W"],
        value: Float[Tensor, "B P W"],
        mask: Bool[Tensor, "B P"] | None,
    ) -> Float[Tensor, "B N W"]:
        query = self.query(self.norm(slots)) * slots.shape[-1] ** -0.5
        weight = (query @ key.transpose(1, 2)).softmax(dim=1) + EPSILON  # (B, N, P), over slots
        if mask is not None:
            weight = weight * mask[:, None]
        total = weight.sum(dim=2, keepdim=True).clamp(min=EPSILON)  # 0 for an empty set, which updates nothing
        update = weight @ value / total  # (B, N, W)
        slots = self.gru(update.flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
        return slots + self.mlp(self.norm_mlp(slots))


def read_out(trajectory: Sequence[Tensor], output: Callable[[Tensor], Tensor], variable: bool) -> Prediction:
    """A prediction from the states (B, N, W) of a trajectory: an element and, if sets vary in size, a mask from each.

    The first state has seen nothing of the input. It carries no gradients, so that a loss over all steps leaves it out.
    """
    with torch.no_grad():
        first = output(trajectory[0])
    sets = torch.stack([first, *map(output, trajectory[1:])])  # (T + 1, B, N, D + 1)
    grad_from = min(1, len(trajectory) - 1)
    if not variable:
        return Prediction(sets, torch.ones_like(sets[..., 0]), grad_from=grad_from)
    return Prediction(sets[..., :-1], sets[..., -1], grad_from=grad_from)
