"""From a decoded trajectory to the JSON that the page draws."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from setpredict.data.clevr.camera import HEIGHT, WIDTH, project
from setpredict.data.task import SetTask, numbers_as_text
from setpredict.report.figures.drawing import shown_as_text
from setpredict.report.tables.judged import columns, judge_boxes, judge_objects
from setpredict.sets import Prediction, Sets
from setpredict.web.inputs import Question
from setpredict.web.limits import BadInput
from setpredict.web.scene_pictures import picture


def answer(question: Question, prediction: Prediction, milliseconds: float, batch_size: int) -> bytes:
    """The trajectory of one sample (a batch of one) as a DecodeAnswer in JSON."""
    served, batch = question.served, question.batch
    losses = prediction.repr_loss
    if not all(bool(torch.isfinite(v).all()) for v in (prediction.elements, prediction.mask, losses) if v is not None):
        raise BadInput("decoding this input gives values that are not finite; is it in the range of the training data?")
    task, steps = served.task, range(prediction.steps + 1)
    as_text = _has_text(task)
    content = {
        "model": served.name,
        "steps": prediction.steps,
        "trained_steps": served.steps,
        "elements": _rounded(prediction.elements[:, 0]),
        "mask": _rounded(prediction.mask[:, 0].clamp(0, 1)),
        "positions": _positions(question, prediction.elements[:, 0]),
        "repr_loss": None if losses is None else [float(f"{v:.4g}") for v in losses[:, 0].tolist()],
        "text": _text(task, prediction.elements[:, 0]) if as_text else None,
        "matches": None if batch is None else [_matches(task, prediction.step(t), batch.target) for t in steps],
        "columns": columns(task) if as_text else list(task.feature_names),
        "input": None if question.input is None else _input(question.input),
        "picture": None if question.sample is None else picture(served.source, question.sample),
        "target": None if batch is None else _target(question, batch.target),
        "latent": _rounded(question.code.vector[0]),
        "milliseconds": round(milliseconds, 2),
        "batch_size": batch_size,
    }
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def _has_text(task: SetTask) -> bool:
    """Whether the page writes elements as text: a picture shows neither categories nor many numbers."""
    return bool(task.groups) or task.kind in ("states", "vectors")


def _rounded(values: Tensor) -> Any:
    return np.round(values.double().numpy(), 4).tolist()


def _positions(question: Question, elements: Tensor) -> Any:
    """The positions of the objects of scenes on their image, as fractions of its width and height."""
    served = question.served
    if served.task.kind != "states" or served.task.input_kind != "image" or served.task.scale is None:
        return None
    if served.task.feature_names[:3] != ("x", "y", "z"):
        return None
    positions = served.task.denormalize(elements)[..., :3].double().numpy()
    with np.errstate(all="ignore"):
        pixels = project(positions, served.camera(question.sample))[..., :2] / (WIDTH, HEIGHT)
    return np.round(np.clip(np.nan_to_num(pixels), -9, 9), 4).tolist()


def _text(task: SetTask, elements: Tensor) -> list[list[list[str]]]:
    """The attributes of every element of some sets (S, N, D) as text, one per column."""
    S, N, _ = elements.shape
    cells: list[list[str]] = []  # by column, of all elements
    if task.numbers:
        numbers = task.denormalize(elements)[..., task.numbers].reshape(S * N, -1).tolist()
        cells.append([numbers_as_text(element, task.decimals) for element in numbers])
    for name in task.spoken or task.groups:
        first, end = task.groups[name]
        likeliest = elements[..., first:end].argmax(dim=-1).flatten().tolist()
        cells.append([task.categories[name][category] for category in likeliest])
    rows = [list(row) for row in zip(*cells)]
    return [rows[s * N : (s + 1) * N] for s in range(S)]


def _matches(task: SetTask, sets: Sets, target: Sets) -> list[dict[str, Any]]:
    """The predicted elements with what is right; empty for points, which are only near or far."""
    if shown_as_text(task):
        return [
            {
                "element": row.element,
                "target": row.target,
                "right": row.right,
                "score": round(row.score, 4),
                "cells": [{"text": cell.text, "wrong": cell.wrong} for cell in row.cells],
            }
            for row in judge_objects(task, sets, target, 0)
        ]
    if task.kind != "boxes":
        return []
    scores = sets.mask[0].clamp(0, 1).tolist()
    return [
        {"element": i, "target": None, "right": right, "score": round(score, 4), "cells": []}
        for i, (right, score) in enumerate(zip(judge_boxes(sets, target, 0, task.groups), scores))
    ]


def _input(value: Tensor | Sets) -> Any:
    if isinstance(value, Sets):
        return _rounded(value.to_list()[0])
    if value.ndim == 2:
        return _rounded(value[0])
    pixels = (value[0].clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _target(question: Question, target: Sets) -> dict[str, Any]:
    elements, task = target.to_list()[0], question.served.task
    text = _text(task, elements[None])[0] if _has_text(task) else None
    return {"elements": _rounded(elements), "positions": _positions(question, elements), "text": text}
