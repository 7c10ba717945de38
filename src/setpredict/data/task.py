"""SetTask: a data set with its splits, a description of its inputs and elements, and reproducible loaders."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from setpredict.config import ElementKind
from setpredict.core.errors import UserError
from setpredict.data.batch import Batch, Joined, Split, Subset, whole
from setpredict.data.loader import Loader
from setpredict.data.plain import unaugmented
from setpredict.sets import Sets

__all__ = ["SPLITS", "Batch", "Fields", "SetTask", "Split", "SplitName", "Subset"]

SplitName = Literal["train", "val", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "val", "test")


def numbers_as_text(values: Iterable[float], decimals: Iterable[int]) -> str:
    """Numbers with so many decimals each.

    >>> numbers_as_text([1.5, 2.25], [2, 0])
    '1.50, 2'
    """
    return ", ".join(f"{value:.{places}f}" for value, places in zip(values, decimals))


@dataclass(frozen=True)
class Fields:
    """One element as named values."""

    numbers: dict[str, float]
    """In the user's units, by feature name."""
    categories: dict[str, str]
    """The most likely category by group, in the order in which they are read: "large yellow metal cube"."""
    decimals: tuple[int, ...] = field(default=(), compare=False)
    """How many decimals of each number are shown (empty: two)."""

    def __str__(self) -> str:
        numbers = numbers_as_text(self.numbers.values(), self.decimals or (2,) * len(self.numbers))
        return " ".join([*([f"({numbers})"] if numbers else []), *self.categories.values()])


@dataclass(eq=False)
class SetTask:
    """A data set of (input, set) pairs: train on `train`, select models on `val`, report on `test`."""

    name: str
    input_kind: Literal["set", "vector", "image"]
    input_size: int
    """Number of features of an input element (set), length (vector) or side length in pixels (image)."""
    max_size: int
    """N, the capacity of padded sets."""
    features: int
    """D, the number of features of an element."""
    variable: bool
    """Whether sets differ in size."""
    kind: ElementKind
    """Determines the plots and the metrics."""
    train: Split
    val: Split
    test: Split
    feature_names: tuple[str, ...] = ()
    groups: dict[str, tuple[int, int]] = field(default_factory=dict)
    """One-hot groups: name → (first feature, last feature + 1)."""
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The category names of each group, in the order of their features."""
    spoken: tuple[str, ...] = ()
    """The order of the groups in text ("large yellow metal cube"); default: as in `groups`."""
    offset: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    """Features in the user's units are `elements * scale + offset` (None: unchanged)."""
    input_offset: tuple[float, ...] | None = None
    input_scale: tuple[float, ...] | None = None
    """Batches contain `(input - input_offset) / input_scale` of the user's vectors or elements (None: unchanged)."""
    max_input_size: int = 0
    """Sets as inputs: their capacity (0: N, like the output)."""
    input_variable: bool | None = None
    """Sets as inputs: whether they differ in size (None: like the output)."""
    has_centers: bool = False
    """Images: whether batches have the elements' centers in the image, which a dense head needs."""
    auto_encodes: bool = False
    """Sets as inputs: whether each is its own target. Only then can input and output share one encoder."""
    divided: int = 0
    """Your own data without validation samples of their own: how many samples were divided into train and val."""

    def __post_init__(self) -> None:
        if not self.feature_names:
            self.feature_names = tuple(f"x{i}" for i in range(self.features))
        if len(self.feature_names) != self.features:
            raise ValueError(f"feature_names must have {self.features} names, got {len(self.feature_names)}")
        for name, (first, end) in self.groups.items():
            if not 0 <= first < end <= self.features or len(self.categories.get(name, ())) != end - first:
                raise ValueError(
                    f"group {name!r} has features {first} to {end} of {self.features} and "
                    f"{len(self.categories.get(name, ()))} category names"
                )
        numbers = [self.feature_names[i] for i in self.numbers]
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"numbers must have different feature names, got {', '.join(numbers)}")
        for name, value in (("offset", self.offset), ("scale", self.scale)):
            if value is not None and len(value) != self.features:
                raise ValueError(f"{name} must have {self.features} values, got {len(value)}")
        for name, value in (("input_offset", self.input_offset), ("input_scale", self.input_scale)):
            if value is not None and len(value) != self.input_size:
                raise ValueError(f"{name} must have {self.input_size} values, got {len(value)}")

    @property
    def input_capacity(self) -> int:
        """Sets as inputs: the largest number of elements."""
        return self.max_input_size or self.max_size

    @property
    def input_varies(self) -> bool:
        """Sets as inputs: whether they differ in size."""
        return self.variable if self.input_variable is None else self.input_variable

    def split(self, name: str) -> Split:
        """The split of that name; "all" is every sample of the data set once, without augmentation."""
        if name == "all":
            found = [unaugmented(self.split(n)) for n in SPLITS]
            if whole(found[1]) is whole(found[2]):  # without a test split of its own, test is val or the first of it
                found[1:] = [max(found[1:], key=len)]
            return Joined(tuple(split for split in found if len(split)))
        if name not in SPLITS:
            raise UserError(f"split must be one of {', '.join(SPLITS)} or all, got {name!r}")
        return getattr(self, name)

    def limited(self, **counts: int) -> SetTask:
        """The same data set with only the first samples of some splits: `limited(train=1000, test=100)`.

        0 gives an empty split.
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
        workers: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> Loader:
        """The batches of one epoch over a split: the same for the same arguments, independent of `workers`.

        `batch_size` is per rank. `start` skips that many batches without loading them, so that training resumes with
        exactly the batches that it would have had. Training batches are all full, with the same number on each rank
        (the remaining samples differ between epochs); in val and test every sample occurs exactly once.
        """
        train = split == "train"
        return Loader(
            self.split(split),
            batch_size,
            key=(seed, split, epoch),
            epoch=epoch if train else 0,
            start=start,
            shuffle=train,
            only_full=train,
            workers=workers,
            rank=rank,
            world_size=world_size,
        )

    def denormalize(self, elements: Float[Tensor, "*shape D"]) -> Float[Tensor, "*shape D"]:
        """Convert predicted or target elements to the user's units, in the precision of the given tensor."""
        if self.scale is not None:
            elements = elements * torch.tensor(self.scale, dtype=elements.dtype, device=elements.device)
        if self.offset is not None:
            elements = elements + torch.tensor(self.offset, dtype=elements.dtype, device=elements.device)
        return elements

    def normalize_input(self, input: Tensor | Sets | np.ndarray | Sequence) -> Tensor | Sets:
        """Convert inputs in the user's units to those of batches: vectors (B, V), or sets, which may be a list of
        arrays; images (B, 3, S, S) or (B, S, S, 3), uint8 or floats from 0 to 1."""
        if not isinstance(input, (Tensor, Sets)):
            if self.input_kind == "set":
                input = Sets.from_list(input, features=self.input_size)
            else:
                input = torch.as_tensor(np.asarray(input))
        if self.input_kind == "image" and isinstance(input, Tensor):
            return _as_images(input)
        if self.input_scale is None or self.input_offset is None:
            return input
        values = input.elements if isinstance(input, Sets) else input
        if values.shape[-1] != self.input_size:
            raise UserError(f"inputs of {self.name} have {self.input_size} numbers, got shape {tuple(values.shape)}")
        values = self._to_range(values if values.is_floating_point() else values.double())
        return Sets(values * (input.mask > 0)[..., None], input.mask) if isinstance(input, Sets) else values

    def denormalize_input(self, input: Tensor | Sets) -> Tensor | Sets:
        """Convert the inputs of batches to the user's units: the inverse of `normalize_input`."""
        if self.input_scale is None or self.input_offset is None:
            return input
        values = input.elements if isinstance(input, Sets) else input
        scale, offset = (torch.tensor(v, dtype=values.dtype) for v in (self.input_scale, self.input_offset))
        values = values * scale.to(values.device) + offset.to(values.device)
        return Sets(values * (input.mask > 0)[..., None], input.mask) if isinstance(input, Sets) else values

    def _to_range(self, values: Tensor) -> Tensor:
        offset = torch.tensor(self.input_offset, dtype=values.dtype, device=values.device)
        return (values - offset) / torch.tensor(self.input_scale, dtype=values.dtype, device=values.device)

    @property
    def numbers(self) -> list[int]:
        """The indices of the features outside of one-hot groups."""
        inside = {i for first, end in self.groups.values() for i in range(first, end)}
        return [i for i in range(self.features) if i not in inside]

    def fields(self, element: Float[Tensor, " D"] | Sequence[float]) -> Fields:
        """One element as named values: numbers in the user's units, and the most likely category of each group."""
        values = self.denormalize(torch.as_tensor(element).double()).tolist()
        groups = {name: values[slice(*self.groups[name])] for name in self.spoken or self.groups}
        return Fields(
            numbers={self.feature_names[i]: values[i] for i in self.numbers},
            categories={name: self.categories[name][int(np.argmax(scores))] for name, scores in groups.items()},
            decimals=self.decimals,
        )

    @property
    def decimals(self) -> tuple[int, ...]:
        """How many decimals tell the values of each number apart: two if they range over about 1 to 100 units."""
        spans = [abs(self.scale[i]) if self.scale is not None else 1.0 for i in self.numbers]
        orders = [round(math.log10(span)) if span > 0 else 0 for span in spans]
        return tuple(max(0, 2 - (order if order < 0 else max(0, order - 2))) for order in orders)

    def describe(self, element: Float[Tensor, " D"] | Sequence[float]) -> str:
        """One element as text, such as "(-2.33, -2.41, 0.73) large yellow metal cube"."""
        return str(self.fields(element))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(self.split(s))} {s}" for s in SPLITS)
        return (
            f"SetTask({self.name}: {self.input_kind} of {self.input_size} → up to {self.max_size} "
            f"{self.kind} with {self.features} features; {sizes})"
        )


def _as_images(images: Tensor) -> Tensor:
    """Channels first, floats from 0 to 1."""
    if images.ndim == 4 and images.shape[-1] == 3 and images.shape[1] != 3:
        images = images.permute(0, 3, 1, 2)
    return images / 255 if images.dtype == torch.uint8 else images
