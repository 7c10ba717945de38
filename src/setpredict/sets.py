"""Sets, what every model predicts, and Prediction, the trajectory on which a decoder arrived at them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import SupportsIndex, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from setpredict.core.errors import NotFinite, UserError

Mask = Bool[Tensor, "B N"] | Float[Tensor, "B N"]


@dataclass(eq=False)
class Sets:
    """A batch of B sets of up to N elements with D features each.

    `mask` says which elements are present: 1 is an element, 0 is padding. It is bool for targets and a float for
    predictions (how sure the model is). Padding is zeros.

    >>> sets = Sets.from_list([[[0.1, 0.2]], [[0.3, 0.4], [0.5, 0.6]]])
    >>> sets
    Sets(2 sets of up to 2 elements with 2 features, sizes 1 to 2)
    >>> sets.sizes.tolist()
    [1, 2]
    >>> [a.tolist() for a in sets[0].to_list()]
    [[[0.1..., 0.2...]]]
    """

    elements: Tensor  # (B, N, D)
    """The elements, (B, N, D)."""
    mask: Tensor  # (B, N); both are checked below, with errors that people can read
    """Which elements are present, (B, N)."""

    def __post_init__(self) -> None:
        if self.elements.ndim != 3:
            raise ValueError(f"elements must have shape (B, N, D), got {tuple(self.elements.shape)}")
        if self.mask.shape != self.elements.shape[:2]:
            raise ValueError(
                f"mask must have shape (B, N) = {tuple(self.elements.shape[:2])}, got {tuple(self.mask.shape)}"
            )
        if not self.elements.is_floating_point():
            raise TypeError(f"elements must be floating point, got {self.elements.dtype}")
        if not (self.mask.dtype == torch.bool or self.mask.is_floating_point()):
            raise TypeError(f"mask must be bool or floating point, got {self.mask.dtype}")

    @classmethod
    def from_list(
        cls,
        sets: Sequence | np.ndarray | Tensor,
        max_size: int | None = None,
        features: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> Sets:
        """Pad ragged sets (lists, arrays or tensors of shape (n, D), n differing) with zeros to `max_size`.

        `features` is needed only when every set is empty, since D cannot then be seen. Without `dtype`, float64
        tensors and arrays stay float64 and everything else becomes torch's default.
        """
        if len(sets) == 0:
            raise UserError("from_list needs at least one set (each set may be empty), got an empty list")
        parts = [_as_matrix(s, i, features) for i, s in enumerate(sets)]
        widths = {p.shape[1]: i for i, p in reversed(list(enumerate(parts))) if p.shape[0] > 0}
        if features is not None:
            widths.setdefault(features, -1)
        if len(widths) > 1:
            raise UserError(f"all elements must have the same number of features, got {_name_widths(widths)}")
        if not widths:
            raise UserError("every set is empty: say how many features an element has, from_list(..., features=D)")
        (D,) = widths
        N = max(p.shape[0] for p in parts)
        if max_size is not None:
            for i, p in enumerate(parts):
                if p.shape[0] > max_size:
                    raise UserError(f"set {i} has {p.shape[0]} elements, more than max_size={max_size}")
            N = max_size
        dtype = dtype or _common_dtype(sets)
        device = parts[0].device
        elements = torch.zeros(len(parts), N, D, dtype=dtype, device=device)
        mask = torch.zeros(len(parts), N, dtype=torch.bool, device=device)
        for i, p in enumerate(parts):
            n = p.shape[0]
            if n:
                elements[i, :n] = p.to(device=device, dtype=dtype)
            mask[i, :n] = True
        return cls(elements, mask).check_finite("set")

    def to_list(self, threshold: float = 0.5) -> list[Tensor]:
        """The sets without padding: one (n, D) tensor per set, of the elements whose mask exceeds `threshold`."""
        keep = self.mask if self.mask.dtype == torch.bool else self.mask > threshold
        return [e[k] for e, k in zip(self.elements, keep)]

    def pad_to(self, max_size: int) -> Sets:
        """The same sets padded to `max_size` elements."""
        extra = max_size - self.elements.shape[1]
        if extra < 0:
            raise ValueError(f"cannot pad sets of {self.elements.shape[1]} elements to max_size={max_size}")
        if extra == 0:
            return self
        elements = torch.nn.functional.pad(self.elements, (0, 0, 0, extra))
        return Sets(elements, torch.nn.functional.pad(self.mask, (0, extra)))

    def permute(self, order: Int[Tensor, " N"] | Int[Tensor, "B N"]) -> Sets:
        """The same sets with their elements in another order, one for the batch (N,) or one per sample (B, N)."""
        B, N, D = self.elements.shape
        order = order.expand(B, N)
        if not torch.equal(order.sort(dim=1).values, torch.arange(N, device=order.device).expand(B, N)):
            raise ValueError(f"order must hold every index from 0 to {N - 1} once")
        elements = self.elements.gather(1, order[:, :, None].expand(B, N, D))
        return Sets(elements, self.mask.gather(1, order))

    def scaled(self, factors: Float[Tensor, " D"]) -> Sets:
        """The same sets with every feature multiplied by its factor."""
        return Sets(self.elements * factors.to(self.elements.dtype), self.mask)

    def check_finite(self, name: str = "set") -> Sets:
        """These sets; raises NotFinite, naming the first NaN or infinite value among the elements and masks."""
        for part, value in (("", self.elements), ("the mask of ", self.mask.float())):
            if not bool(torch.isfinite(value).all()):
                where = torch.nonzero(~torch.isfinite(value))[0].tolist()
                raise NotFinite(f"{part}{name} {where[0]}, element {where[1]} is {value[tuple(where)].item()}")
        return self

    @property
    def sizes(self) -> Int[Tensor, " B"]:
        """The number of elements per set (a soft mask counts above one half)."""
        return self.present.sum(dim=1)

    @property
    def present(self) -> Bool[Tensor, "B N"]:
        """Which elements are in their set (a soft mask counts above one half)."""
        return self.mask if self.mask.dtype == torch.bool else self.mask > 0.5

    @property
    def features_with_mask(self) -> Float[Tensor, "B N C"]:
        """The elements with their mask as one more feature, as in the paper (section 3.1)."""
        elements, mask = self.elements, self.mask[..., None]
        if mask.dtype == torch.bool:  # what a mask removes must not matter
            elements = elements.masked_fill(~mask, 0)
        return torch.cat([elements, mask.to(elements.dtype)], dim=-1)

    def to(self, *args, **kwargs) -> Sets:
        """Move to a device or a floating dtype; a bool mask stays bool."""
        elements = self.elements.to(*args, **kwargs)
        if self.mask.dtype == torch.bool:
            return Sets(elements, self.mask.to(elements.device))
        return Sets(elements, self.mask.to(*args, **kwargs))

    def detach(self) -> Sets:
        return Sets(self.elements.detach(), self.mask.detach())

    def __len__(self) -> int:
        return self.elements.shape[0]

    def __getitem__(self, index: SupportsIndex | slice | Sequence[int] | Sequence[bool] | np.ndarray | Tensor) -> Sets:
        """Some of the sets, still a batch: `sets[3]` is a batch of one, `sets[[0, 2]]` one of two."""
        if isinstance(index, Sequence | np.ndarray) and getattr(index, "ndim", 1):
            index = torch.as_tensor(np.asarray(index, dtype=None if len(index) else np.int64))
        if not isinstance(index, slice) and getattr(index, "ndim", 0) == 0:  # numpy's and torch's single numbers too
            index = operator.index(cast(SupportsIndex, index))
            if not -len(self) <= index < len(self):
                raise IndexError(f"index {index} is out of range for {len(self)} sets")
            index = slice(index, index + 1 or None)
        return Sets(self.elements[index], self.mask[index])

    def __repr__(self) -> str:
        B, N, D = self.elements.shape
        sizes = f", sizes {int(self.sizes.min())} to {int(self.sizes.max())}" if B else ""
        return f"Sets({B} sets of up to {N} elements with {D} features{sizes})"


@dataclass(eq=False)
class Prediction:
    """What a decoder returns: the trajectory Y0 … YT and what was measured along it.

    A one-shot decoder returns a trajectory of length one. Not frozen, because Lightning Fabric moves it.

    >>> prediction = Prediction(torch.zeros(11, 4, 8, 2), torch.ones(11, 4, 8))
    >>> prediction.steps, prediction.final
    (10, Sets(4 sets of up to 8 elements with 2 features, sizes 8 to 8))
    """

    elements: Float[Tensor, "T1 B N D"]
    """The elements of every set from Y0 to YT, (T+1, B, N, D)."""
    mask: Float[Tensor, "T1 B N"]
    """The masks of every set, (T+1, B, N)."""
    repr_loss: Float[Tensor, "T1 B"] | None = None
    """L_repr(Yt, z) of every set, without gradients; None for decoders without a representation loss."""
    grad_norm: Float[Tensor, "T B"] | None = None
    """‖∂L_repr/∂Yt‖ at each step, before clipping."""
    steps_taken: Int[Tensor, " B"] | None = None
    """How many steps each sample took before it stopped early; None where samples do not stop."""
    grad_from: int = 0
    """The first step whose set carries gradients; a set loss "over all steps" starts there."""
    target_loss: Float[Tensor, " B"] | None = None
    """L_repr(Y, z) of the target, with gradients, where a target was given (the λ term of Algorithm 1)."""
    dense_loss: Float[Tensor, " B"] | None = None
    """The loss of the dense head, with gradients, where the model has one and a target was given."""

    @property
    def final(self) -> Sets:
        """YT, the prediction."""
        return self.step(-1)

    def step(self, t: int) -> Sets:
        """Yt."""
        return Sets(self.elements[t], self.mask[t])

    @property
    def steps(self) -> int:
        """T."""
        return self.elements.shape[0] - 1

    @property
    def displacement(self) -> Float[Tensor, "T1 B"]:
        """‖Yt − Y0‖ per sample, masks included: how far each set has moved."""
        state = torch.cat([self.elements, self.mask[..., None]], dim=-1).detach()
        return (state - state[:1]).flatten(2).norm(dim=2)

    def scaled(self, factors: Float[Tensor, " D"]) -> Prediction:
        """The same trajectory with every feature multiplied by its factor."""
        return replace(self, elements=self.elements * factors.to(self.elements.dtype))

    def samples(self, part: slice) -> Prediction:
        """The trajectories of some of the samples."""
        values = {name: getattr(self, name)[_at(name, part)] for name in self._tensors()}
        return replace(self, **values)

    @classmethod
    def cat(cls, parts: Sequence[Prediction]) -> Prediction:
        """The trajectories of several batches as one batch."""
        if len(parts) == 1:
            return parts[0]
        values = {
            name: torch.cat([getattr(part, name) for part in parts], dim=len(_at(name, ...)) - 1)
            for name in parts[0]._tensors()
        }
        return replace(parts[0], **values)

    def detach(self) -> Prediction:
        return self._map(lambda x: x.detach())

    def to(self, *args, **kwargs) -> Prediction:
        """Move to a device or a floating dtype; the counts in `steps_taken` stay integers."""
        return self._map(lambda x: x.to(*args, **kwargs) if x.is_floating_point() else _move(x, args, kwargs))

    def _map(self, change) -> Prediction:
        return replace(self, **{name: change(getattr(self, name)) for name in self._tensors()})

    def _tensors(self) -> list[str]:
        """The names of the fields that are there."""
        return [f.name for f in fields(self) if isinstance(getattr(self, f.name), Tensor)]

    def __repr__(self) -> str:
        T1, B, N, D = self.elements.shape
        return f"Prediction({B} sets of {N} elements with {D} features after {T1 - 1} steps)"


def _at(name: str, samples) -> tuple:
    """The index of samples in a tensor of a Prediction: they follow the steps where there are any."""
    return (slice(None), samples) if name in ("elements", "mask", "repr_loss", "grad_norm") else (samples,)


def _move(x: Tensor, args, kwargs) -> Tensor:
    return x.to(*args, **kwargs).to(x.dtype)


def _as_matrix(value, index: int, features: int | None) -> Tensor:
    """One set as an (n, D) tensor; the empty set has as many features as it says or as asked for."""
    if not isinstance(value, Tensor):
        try:
            value = np.asarray(value) if isinstance(value, np.ndarray) else np.array(value, dtype=np.float64)
        except (TypeError, ValueError) as e:
            raise UserError(f"set {index} is not a list of equally long lists of numbers: {e}") from e
        if value.dtype.kind not in "fiub":
            raise UserError(f"set {index} holds {value.dtype}, expected numbers")
        value = torch.from_numpy(np.ascontiguousarray(value))
    if value.numel() == 0 and value.ndim < 2:
        return value.new_zeros(0, features or 0)
    if value.is_complex():
        raise UserError(f"set {index} holds {value.dtype}, expected real numbers")
    if value.ndim != 2:
        raise UserError(f"set {index} must have shape (n, D), got {tuple(value.shape)}")
    return value


def _common_dtype(sets: Sequence | np.ndarray | Tensor) -> torch.dtype:
    """float64 if a tensor or array is; lists of numbers have no precision of their own."""
    given = {str(s.dtype).rpartition(".")[2] for s in sets if isinstance(s, Tensor | np.ndarray)}
    return torch.float64 if "float64" in given else torch.get_default_dtype()


def _name_widths(widths: dict[int, int]) -> str:
    given = [f"{d} in set {i}" if i >= 0 else f"features={d}" for d, i in sorted(widths.items())]
    return " and ".join(given)
