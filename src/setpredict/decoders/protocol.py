"""What every decoder offers to the rest: training, evaluation, prediction, plots, reports and the web page."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor, nn

from setpredict.encoders import Code
from setpredict.sets import Prediction, Sets


@runtime_checkable
class Decoder(Protocol):
    """The protocol of all decoders, which turn a `Code` into a `Prediction`.

    A decoder is an `nn.Module` with these attributes and methods; there is nothing to inherit.

    One that is iterative returns every set of its trajectory and then gets steps at evaluation, diagnosis, plots and
    the page like the built-in ones.

    >>> from setpredict.decoders import MLPDecoder
    >>> isinstance(MLPDecoder(latent=64, max_size=10, features=2), Decoder)
    True
    """

    @property
    def steps(self) -> int:
        """T, the number of steps by default; 0 for a one-shot decoder."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Which parts of a `Code` it needs: "vector", "tokens", "proposals"."""
        ...

    @property
    def set_encoder(self) -> nn.Module | None:
        """The set encoder inside, which can encode input sets too (`input.shared`); None if it has none."""
        ...

    def __call__(
        self, code: Code | Float[Tensor, "B L"], *, steps: int | None = None, keys: Int[Tensor, " B"] | None = None
    ) -> Prediction:
        """Decode.

        Args:
            code: What to decode; a plain tensor (B, L) is a vector code.
            steps: Steps to take instead of `self.steps`; one-shot decoders ignore it.
            keys: One 64-bit key per sample that random numbers are drawn from, so that a sample's prediction does not
                depend on its batch; None: fresh ones in training, the same ones in evaluation.
        """
        ...


@runtime_checkable
class Layered(Protocol):
    """A decoder with a largest number of steps, such as one with different weights in every step."""

    @property
    def max_steps(self) -> int:
        """The largest `steps` that it takes."""
        ...


@runtime_checkable
class WithTargetLoss(Protocol):
    """A decoder with a representation loss, whose training has a λ term."""

    def target_loss(self, target: Sets, code: Code | Float[Tensor, "B L"]) -> Float[Tensor, " B"] | None:
        """L_repr(Y, z) of the true set; None if it has no representation loss after all."""
        ...
