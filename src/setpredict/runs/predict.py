"""Predictions for input files: images, and numbers as .npy, .json or text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
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

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: `input`, `set` and `score`."""
        return {"input": self.input, "set": self.elements.tolist(), "score": self.scores.tolist()}


def predict_files(
    run: LoadedRun, inputs: Sequence[str], steps: int | None = None, threshold: float = 0.5, batch_size: int = 64
) -> Iterator[Answer]:
    """Predict the set of every input, in order.

    Args:
        run: The model and the description of its data.
        inputs: Image files; or numbers as .npy files, .json files, or JSON text.
        steps: Inner steps (None: as trained).
        threshold: Elements with a score above this are present.
        batch_size: Inputs decoded at once.
    """
    if steps is not None and steps < 0:
        raise UserError(f"--steps must be 0 or more, got {steps}")
    task = run.task
    for begin in range(0, len(inputs), batch_size):
        names = inputs[begin : begin + batch_size]
        values = [read_input(name, task) for name in names]
        given = Sets.from_list(values, features=task.input_size) if task.input_kind == "set" else torch.stack(values)
        predicted = run.model.predict(task.normalize_input(given), steps).to("cpu")
        scores = predicted.mask.clamp(0, 1)
        for i, name in enumerate(names):
            present = scores[i] > threshold
            order = torch.argsort(scores[i][present], descending=True)
            yield _answer(task, name, predicted.elements[i][present][order], scores[i][present][order])


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
        values = np.zeros((0, task.input_size), np.float32)
    elif values.ndim != 2 or values.shape[1] != task.input_size:
        raise UserError(
            f"{_shortened(text)} must be a list of elements with {task.input_size} numbers, got shape {values.shape}"
        )
    if not np.isfinite(values).all():
        raise UserError(f"{_shortened(text)} has a number that is not finite")
    return torch.from_numpy(values)


def _answer(task: SetTask, name: str, elements: Float[Tensor, "M D"], scores: Float[Tensor, " M"]) -> Answer:
    fields = [task.fields(element) for element in elements]
    text = [task.describe(element) for element in elements]
    elements = task.denormalize(elements)
    if task.kind == "boxes" and task.input_kind == "image" and task.scale is None:
        width, height = image_size(Path(name))
        elements = torch.cat([elements[:, :BOX] * elements.new_tensor([width, height] * 2), elements[:, BOX:]], dim=1)
        boxes = elements[:, :BOX].tolist()
        fields = [replace(f, numbers=f.numbers | dict(zip(task.feature_names, box))) for f, box in zip(fields, boxes)]
        text = [_box_text(box, f.categories.values()) for f, box in zip(fields, boxes)]
    return Answer(name, elements, scores, fields, text)


def _box_text(box: Sequence[float], categories: Iterable[str]) -> str:
    left, top, right, bottom = box
    return " ".join([f"x {left:.0f} to {right:.0f}, y {top:.0f} to {bottom:.0f} pixels", *categories])


def _read_numbers(text: str) -> np.ndarray:
    path = Path(text)
    try:
        if path.suffix == ".npy":
            return np.lib.format.read_array(BytesIO(path.read_bytes()), allow_pickle=False).astype(np.float32)
        content = path.read_text(encoding="utf-8") if path.suffix == ".json" else text
        return np.array(json.loads(content), dtype=np.float32)
    except FileNotFoundError:
        raise UserError(f"file {text} not found") from None
    except (ValueError, TypeError, EOFError, OverflowError, RecursionError) as e:
        raise UserError(
            f"{_shortened(text)} is neither a .npy or .json file nor JSON numbers in equal rows: {e}"
        ) from None


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"
