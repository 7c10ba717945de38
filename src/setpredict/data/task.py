"""SetTask: a data set with its splits, what it looks like, and loaders that repeat themselves exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from setpredict.data.loader import Loader
from setpredict.sets import Sets

SplitName = Literal["train", "val", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "val", "test")


@dataclass(eq=False)
class Batch:
    """B samples: what goes in, the set that should come out, and each sample's position in its split."""

    input: Tensor | Sets
    target: Sets
    index: Int[Tensor, " B"]

    def to(self, device: str | torch.device) -> Batch:
        return Batch(self.input.to(device), self.target.to(device), self.index.to(device))

    def __len__(self) -> int:
        return len(self.target)


@runtime_checkable
class Split(Protocol):
    """Map-style: `batch` is pure, the randomness of an item comes from (seed, split, epoch, index)."""

    def __len__(self) -> int: ...

    def batch(self, indices: np.ndarray, epoch: int) -> Batch: ...


@dataclass(frozen=True)
class Subset:
    """The first samples of a split."""

    split: Split
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.count <= len(self.split):
            raise ValueError(f"a part of this split has 0 to {len(self.split)} samples, got {self.count}")

    def __len__(self) -> int:
        return self.count

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        return self.split.batch(indices, epoch)


@dataclass(eq=False)
class SetTask:
    """A data set of (input, set) pairs: train on `train`, choose models on `val`, report on `test`."""

    name: str
    input_kind: Literal["set", "vector", "image"]
    input_size: int
    """Features of an input element (set), length (vector) or side in pixels (image)."""
    max_size: int
    """N."""
    features: int
    """D."""
    variable: bool
    """Whether sets differ in size."""
    kind: Literal["points", "polygons", "boxes", "states", "vectors"]
    """What to plot, and which metric applies."""
    train: Split
    val: Split
    test: Split
    feature_names: tuple[str, ...] = ()
    groups: dict[str, tuple[int, int]] = field(default_factory=dict)
    """One-hot groups: name → (first feature, behind the last)."""
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of each group's categories, in the order of their features."""
    spoken: tuple[str, ...] = ()
    """The order of the groups in words ("large yellow metal cube"); default: as in `groups`."""
    offset: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    """Features in the user's units are `elements * scale + offset` (None: the elements as they are)."""
    input_offset: tuple[float, ...] | None = None
    input_scale: tuple[float, ...] | None = None
    """Batches hold `(input - input_offset) / input_scale` of the user's vectors or set elements (None: as they are)."""
    max_input_size: int = 0
    """Sets as inputs: the most elements they have (0: N, as the output)."""
    input_variable: bool | None = None
    """Sets as inputs: whether they differ in size (None: as the output)."""
    auto_encodes: bool = False
    """Sets as inputs: whether each is its own target. Only then may one encoder serve both ends."""

    def __post_init__(self) -> None:
        if not self.feature_names:
            self.feature_names = tuple(f"x{i}" for i in range(self.features))
        if len(self.feature_names) != self.features:
            raise ValueError(f"feature_names must name {self.features} features, got {len(self.feature_names)}")
        for name, (first, end) in self.groups.items():
            if not 0 <= first < end <= self.features or len(self.categories.get(name, ())) != end - first:
                raise ValueError(
                    f"group {name!r} spans features {first} to {end} of {self.features} and has "
                    f"{len(self.categories.get(name, ()))} category names"
                )
        for name, value in (("offset", self.offset), ("scale", self.scale)):
            if value is not None and len(value) != self.features:
                raise ValueError(f"{name} must have {self.features} values, got {len(value)}")
        for name, value in (("input_offset", self.input_offset), ("input_scale", self.input_scale)):
            if value is not None and len(value) != self.input_size:
                raise ValueError(f"{name} must have {self.input_size} values, got {len(value)}")

    def split(self, name: str) -> Split:
        if name not in SPLITS:
            raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {name!r}")
        return getattr(self, name)

    def limited(self, **counts: int) -> SetTask:
        """The same data set with only the first so many samples of some splits: limited(train=1000, test=100).

        0 leaves an empty split, of length 0.
        """
        return replace(self, **{name: Subset(self.split(name), count) for name, count in counts.items()})

    def loader(
        self,
        split: str,
        batch_size: int,
        *,
        seed: int = 0,
        epoch: int = 0,
        start: int = 0,
        shuffle: bool | None = None,
        workers: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> Loader:
        """Batches of one epoch over a split, the same ones for the same arguments, whatever `workers` is.

        `batch_size` counts the samples of one rank. `start` skips that many batches without loading them, so
        training resumes with the very batches it would have had. Training batches are all full and equally many
        on each rank (what is left over differs from epoch to epoch); in val and test every sample comes exactly
        once.
        """
        train = split == "train"
        return Loader(
            self.split(split),
            batch_size,
            key=(seed, split, epoch),
            epoch=epoch if train else 0,
            start=start,
            shuffle=train if shuffle is None else shuffle,
            only_full=train,
            workers=workers,
            rank=rank,
            world_size=world_size,
        )

    def denormalize(self, elements: Float[Tensor, "*shape D"]) -> Float[Tensor, "*shape D"]:
        """Predicted or target elements in the user's units."""
        if self.scale is not None:
            elements = elements * torch.tensor(self.scale, dtype=elements.dtype, device=elements.device)
        if self.offset is not None:
            elements = elements + torch.tensor(self.offset, dtype=elements.dtype, device=elements.device)
        return elements

    def normalize_input(self, input: Tensor | Sets) -> Tensor | Sets:
        """A user's own input (vectors (B, V) or sets) as the model knows inputs from batches; images stay."""
        if self.input_scale is None or self.input_offset is None:
            return input
        if isinstance(input, Sets):
            elements = self._to_range(input.elements) * (input.mask > 0)[..., None]
            return Sets(elements, input.mask)
        return self._to_range(input)

    def _to_range(self, values: Tensor) -> Tensor:
        offset = torch.tensor(self.input_offset, dtype=values.dtype, device=values.device)
        return (values - offset) / torch.tensor(self.input_scale, dtype=values.dtype, device=values.device)

    @property
    def numbers(self) -> list[int]:
        """The features that are no part of a one-hot group."""
        inside = {i for first, end in self.groups.values() for i in range(first, end)}
        return [i for i in range(self.features) if i not in inside]

    def describe(self, element: Float[Tensor, " D"] | Sequence[float]) -> str:
        """One element in words: its numbers in the user's units, and the likeliest category of each group."""
        values = self.denormalize(torch.as_tensor(element)).tolist()
        numbers = ", ".join(f"{values[i]:.2f}" for i in self.numbers)
        order = self.spoken or tuple(self.groups)
        words = [self.categories[g][int(np.argmax(values[slice(*self.groups[g])]))] for g in order]
        return " ".join([f"({numbers})", *words])

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(self.split(s))} {s}" for s in SPLITS)
        return (
            f"SetTask({self.name}: {self.input_kind} of {self.input_size} → up to {self.max_size} "
            f"{self.kind} with {self.features} features; {sizes})"
        )
