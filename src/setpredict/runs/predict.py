"""Predictions for input files: images, and numbers as .npy, .json or text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from setpredict.core.errors import UserError
from setpredict.data.io.images import image_size, images_to_float, read_image
from setpredict.data.task import Fields, SetTask
from setpredict.runs.loaded import LoadedRun
from setpredict.sets import Sets

BOX = 4
"""The first features of a box: x0, y0, x1, y1."""


@dataclass
class Answer:
    """The predicted set of one input, best elements first."""

    input: str
    """As it was given."""
    elements: Float[Tensor, "M D"]
    """The elements that are present, in the data's units; boxes in pixels of the original image."""
    scores: Float[Tensor, " M"]
    """Their masks, from 0 to 1."""
    fields: list[Fields]
    """The elements as named values, in the same units."""
    text: list[str]
    """The elements as text, one line each."""
    places: Float[Tensor, "M P"] | None = None
    """Where boxes (left, top, right, bottom) or points (x, y) are, in pixels of the original image; else None."""

    def __len__(self) -> int:
        return len(self.scores)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: `input`, and for each element of `set` its score, its numbers and its categories by
        name."""
        return {"input": self.input, "set": [self.element(i) for i in range(len(self))]}

    def element(self, index: int) -> dict[str, float | str]:
        """One element: its score, its numbers and its categories by name."""
        fields = self.fields[index]
        return {"score": float(self.scores[index]), **fields.numbers, **fields.categories}

    def above(self, threshold: float) -> Answer:
        """The same answer with only the elements whose score exceeds the threshold."""
        count = int((self.scores > threshold).sum())  # best elements come first
        places = None if self.places is None else self.places[:count]
        parts = self.elements[:count], self.scores[:count], self.fields[:count], self.text[:count]
        return Answer(self.input, *parts, places)


def predict_files(
    run: LoadedRun,
    inputs: Sequence[str],
    steps: int | None = None,
    threshold: float = 0.5,
    batch_size: int = 64,
    on_error: Callable[[UserError], object] | None = None,
) -> Iterator[Answer]:
    """Predict the set of every input, in order.

    Args:
        run: The model and the description of its data.
        inputs: Image files; or numbers as .npy files, .json files, or JSON text.
        steps: Inner steps (None: as trained).
        threshold: Elements with a score above this are present.
        batch_size: Inputs decoded at once.
        on_error: Is told why an input cannot be read, and the input is left out (None: that is raised).
    """
    if steps is not None and steps < 0:
        raise UserError(f"--steps must be 0 or more, got {steps}")
    task = run.task
    for begin in range(0, len(inputs), batch_size):
        read = _read_all(inputs[begin : begin + batch_size], task, on_error)
        if not read:
            continue
        names, values = zip(*read)
        if task.input_kind == "set":
            given = Sets.from_list(values, features=task.input_size, dtype=torch.float64)
        else:
            given = torch.stack(values)
        # in float64 until they are in a range of about 1: float32 cannot tell large numbers apart
        predicted = run.model.predict(task.normalize_input(given), steps).to("cpu")
        scores = predicted.mask.clamp(0, 1)
        for i, name in enumerate(names):
            present = scores[i] > threshold
            order = torch.argsort(scores[i][present], descending=True)
            yield _answer(task, name, predicted.elements[i][present][order], scores[i][present][order])


def accepts(task: SetTask) -> str:
    """What a model takes and what it predicts, with its limits, in one line.

    >>> from setpredict.runs.loaded import load
    >>> accepts(load("points-idspn").task)
    'takes sets of up to 10 elements of 2 numbers and predicts up to 10 points (x, y)'
    """
    given = {
        "image": f"images (PNG, JPEG or WebP), resized to {task.input_size}×{task.input_size} pixels,",
        "vector": f"vectors of {task.input_size} numbers",
        "set": f"sets of up to {task.input_capacity} elements of {task.input_size} numbers",
    }[task.input_kind]
    names = [task.feature_names[i] for i in task.numbers] + list(task.groups)
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    many = "up to " if task.variable else "always "
    elements = "corners" if task.kind == "polygons" else task.kind
    return f"takes {given} and predicts {many}{task.max_size} {elements} ({shown})"


def _read_all(
    names: Sequence[str], task: SetTask, on_error: Callable[[UserError], object] | None
) -> list[tuple[str, Tensor]]:
    """The inputs that can be read, each with its name."""
    found = []
    for name in names:
        try:
            found.append((name, read_input(name, task)))
        except (UserError, OSError) as e:
            problem = e if isinstance(e, UserError) else UserError(f"{_shortened(name)}: {e.strerror or e}")
            if on_error is None:
                raise problem from None
            on_error(problem)
    return found


def read_input(text: str, task: SetTask) -> Tensor:
    """One input as a tensor: an image file; or numbers from a .npy file, a .json file or JSON text."""
    if task.input_kind == "image":
        path = Path(text)
        if not path.is_file():
            raise UserError(f"image {text} not found")
        return images_to_float(read_image(path, task.input_size)[None])[0]
    values = _read_numbers(text)
    if task.input_kind == "vector":
        if values.shape != (task.input_size,):
            raise UserError(f"{_shortened(text)} must be {task.input_size} numbers, got shape {values.shape}")
    elif values.size == 0:
        values = np.zeros((0, task.input_size))
    elif values.ndim != 2 or values.shape[1] != task.input_size:
        raise UserError(
            f"{_shortened(text)} must be a list of elements with {task.input_size} numbers, got shape {values.shape}"
        )
    if not np.isfinite(values).all():
        raise UserError(f"{_shortened(text)} has a number that is not finite")
    if task.input_kind == "set":
        most, varies = task.input_capacity, task.input_varies
        if len(values) > most or (len(values) < most and not varies):
            count = f"{'up to' if varies else 'exactly'} {most} elements"
            raise UserError(f"{_shortened(text)} must have {count}, got {len(values)}")
    return torch.from_numpy(values)


def _answer(task: SetTask, name: str, elements: Float[Tensor, "M D"], scores: Float[Tensor, " M"]) -> Answer:
    fields = [task.fields(element) for element in elements]
    text = [str(f) for f in fields]
    own = task.denormalize(elements.double())
    count = {"boxes": BOX, "points": 2}.get(task.kind, 0) if task.input_kind == "image" else 0
    if not count or task.numbers[:count] != list(range(count)):
        return Answer(name, own, scores, fields, text)
    size = own.new_tensor([*image_size(Path(name))] * 2)[:count]
    places = elements[:, :count] * size  # in pixels of this image, which need not be as large as those of the data
    if _in_pixels(task):
        own = torch.cat([places, own[:, count:]], dim=1)
        named = [dict(zip(task.feature_names, place)) for place in places.tolist()]
        fields = [replace(f, numbers=f.numbers | numbers) for f, numbers in zip(fields, named)]
        text = [_box_text(place, f) if count == BOX else str(f) for f, place in zip(fields, places.tolist())]
    return Answer(name, own, scores, fields, text, places)


def _in_pixels(task: SetTask) -> bool:
    """Whether the data's own unit for positions in an image is the pixel, and not a fraction of the image."""
    return task.kind == "boxes" if task.scale is None else task.scale[0] > 1


def _box_text(box: Sequence[float], fields: Fields) -> str:
    left, top, right, bottom = box
    return " ".join([f"x {left:.0f} to {right:.0f}, y {top:.0f} to {bottom:.0f} pixels", *fields.categories.values()])


def _read_numbers(text: str) -> np.ndarray:
    path = Path(text)
    try:
        if path.suffix == ".npy":
            array = np.lib.format.read_array(BytesIO(path.read_bytes()), allow_pickle=False)
            if array.dtype.kind not in "fiub":
                raise TypeError(f"it holds {array.dtype}")
            return array.astype(np.float64)
        content = path.read_text(encoding="utf-8-sig") if path.suffix == ".json" else text
        return np.array(json.loads(content), dtype=np.float64)
    except FileNotFoundError:
        raise UserError(f"file {text} not found") from None
    except (ValueError, TypeError, EOFError, OverflowError, RecursionError, MemoryError) as e:
        raise UserError(
            f"{_shortened(text)} is neither a .npy or .json file nor JSON numbers in equal rows: {e}"
        ) from None


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"
