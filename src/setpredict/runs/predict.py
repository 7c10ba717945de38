"""From files to predicted sets: read inputs of any kind, predict, and say the result in words or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from setpredict.data.io.images import image_size, images_to_float, read_image
from setpredict.data.task import SetTask
from setpredict.model import SetPredictor
from setpredict.sets import Sets
from setpredict.data.description import read_card


def load_run(run: Path, device: str = "cpu") -> tuple[SetPredictor, SetTask]:
    """The best model of a run, or a shipped model's folder, and the description of its data."""
    if (run / "card.json").is_file():
        return SetPredictor.from_pretrained(run, device).eval(), read_card(run / "task.json")
    if not (run / "best" / "model.safetensors").is_file():
        what = "has no validated model yet" if (run / "config.json").is_file() else "is not a run"
        raise FileNotFoundError(f"{run} {what}: {run / 'best'} is missing")
    model = SetPredictor.from_pretrained(run / "best", device, allow_own_code=True)  # the user's own run
    return model.eval(), read_card(run / "task.json")


def predict_files(
    run: Path, inputs: Sequence[str], steps: int | None = None, threshold: float = 0.5, batch_size: int = 64
) -> Iterator[dict[str, Any]]:
    """One answer an input, in order: the elements present, in the data's own units, with their scores."""
    model, task = load_run(run)
    for begin in range(0, len(inputs), batch_size):
        names = inputs[begin : begin + batch_size]
        read = [read_input(name, task) for name in names]
        given = Sets.from_list(read, features=task.input_size) if task.input_kind == "set" else torch.stack(read)
        predicted = model.predict(task.normalize_input(given), steps)
        scores = predicted.mask.clamp(0, 1)
        for i, name in enumerate(names):
            keep = scores[i] > threshold
            order = torch.argsort(scores[i][keep], descending=True)
            elements, score = predicted.elements[i][keep][order], scores[i][keep][order]
            words = [task.describe(element) for element in elements]
            elements = task.denormalize(elements)
            if task.kind == "boxes" and task.input_kind == "image" and task.scale is None:
                elements[:, :4] *= elements.new_tensor(image_size(Path(name)) * 2)  # x, y, x, y
                words = [in_pixels(*box, word) for box, word in zip(elements[:, :4].tolist(), words)]
            yield {"input": name, "set": elements.tolist(), "score": score.tolist(), "words": words}


def read_input(text: str, task: SetTask) -> Tensor:
    """An image file, or numbers: a .npy file, a JSON file, or JSON on the command line."""
    if task.input_kind == "image":
        path = Path(text)
        if not path.is_file():
            raise FileNotFoundError(f"no image {text}")
        return images_to_float(read_image(path, task.input_size)[None])[0]
    values = _numbers(text)
    if task.input_kind == "vector":
        if values.shape != (task.input_size,):
            raise ValueError(f"{_short(text)} must be {task.input_size} numbers, got shape {values.shape}")
    elif values.size == 0:
        values = np.zeros((0, task.input_size), np.float32)
    elif values.ndim != 2 or values.shape[1] != task.input_size:
        raise ValueError(
            f"{_short(text)} must be a list of elements with {task.input_size} numbers, got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{_short(text)} holds a number that is not finite")
    return torch.from_numpy(values)


def in_pixels(left: float, top: float, right: float, bottom: float, words: str) -> str:
    """A box, and its category if the words behind the numbers name one."""
    category = words.rpartition(")")[2]
    return f"x {left:.0f} to {right:.0f}, y {top:.0f} to {bottom:.0f} pixels{category}"


def _numbers(text: str) -> np.ndarray:
    path = Path(text)
    try:
        if path.suffix == ".npy":
            return np.lib.format.read_array(BytesIO(path.read_bytes()), allow_pickle=False).astype(np.float32)
        content = path.read_text(encoding="utf-8") if path.suffix == ".json" else text
        return np.array(json.loads(content), dtype=np.float32)
    except FileNotFoundError:
        raise FileNotFoundError(f"no file {text}") from None
    except (ValueError, TypeError, EOFError, OverflowError, RecursionError) as e:
        raise ValueError(
            f"{_short(text)} is neither a .npy or .json file nor JSON numbers in equal rows: {e}"
        ) from None


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"
