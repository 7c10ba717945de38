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
from setpredict.report.figures.drawing import in_words
from setpredict.report.tables.judged import columns, judge_boxes, judge_objects, true_objects
from setpredict.sets import Prediction, Sets
from setpredict.web.catalog import Served
from setpredict.web.inputs import BadInput, Question


def answer(question: Question, way: Prediction, milliseconds: float, together: int) -> bytes:
    """The way of one sample as a DecodeAnswer in JSON."""
    served, batch = question.served, question.batch
    if not bool(torch.isfinite(way.elements).all() and torch.isfinite(way.mask).all()):
        raise BadInput("decoding this input leaves the finite numbers; is it of the size that the model knows?")
    words = in_words(served.task)
    content = {
        "model": served.name,
        "steps": way.steps,
        "trained_steps": served.steps,
        "elements": _rounded(way.elements[:, 0]),
        "mask": _rounded(way.mask[:, 0].clamp(0, 1)),
        "places": _places(question, way.elements[:, 0]),
        "repr_loss": None if way.repr_loss is None else [float(f"{v:.4g}") for v in way.repr_loss[:, 0].tolist()],
        "words": _in_words(served, way) if words else None,
        "judged": None if batch is None else [_judged(served, way.step(t), batch.target) for t in range(way.steps + 1)],
        "columns": columns(served.task) if words else list(served.task.feature_names),
        "input": None if batch is None else _input(batch.input),
        "target": None if batch is None else _target(question, batch.target),
        "latent": _rounded(question.z[0]),
        "milliseconds": round(milliseconds, 2),
        "together": together,
    }
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def _rounded(values: Tensor) -> Any:
    return np.round(values.double().numpy(), 4).tolist()


def _places(question: Question, elements: Tensor) -> Any:
    """Where the objects of scenes are on their image, as parts of its width and height."""
    served = question.served
    if served.task.kind != "states" or served.task.input_kind != "image" or served.task.scale is None:
        return None
    if served.task.feature_names[:3] != ("x", "y", "z"):
        return None
    positions = served.task.denormalize(elements)[..., :3].double().numpy()
    with np.errstate(all="ignore"):
        pixels = project(positions, served.camera(question.sample))[..., :2] / (WIDTH, HEIGHT)
    return np.round(np.clip(np.nan_to_num(pixels), -9, 9), 4).tolist()


def _in_words(served: Served, way: Prediction) -> list[list[list[str]]]:
    task = served.task
    rows = [
        true_objects(task, Sets(way.elements[t], torch.ones_like(way.mask[t]).bool()), 0) for t in range(way.steps + 1)
    ]
    return [[[cell.text for cell in row.cells] for row in step] for step in rows]


def _judged(served: Served, sets: Sets, target: Sets) -> list[dict[str, Any]]:
    """Only boxes and objects are right or wrong; points are near or far."""
    if in_words(served.task):
        rows = judge_objects(served.task, sets, target, 0)
        return [
            {
                "element": row.element,
                "target": row.target,
                "right": row.right,
                "score": round(row.score, 4),
                "cells": [{"text": cell.text, "wrong": cell.wrong} for cell in row.cells],
            }
            for row in rows
        ]
    if served.task.kind != "boxes":
        return []
    scores = sets.mask[0].clamp(0, 1).tolist()
    right = judge_boxes(sets, target, 0, served.task.groups)
    return [
        {"element": i, "target": None, "right": good, "score": round(score, 4), "cells": []}
        for i, (good, score) in enumerate(zip(right, scores))
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
    words = [[c.text for c in row.cells] for row in true_objects(task, target, 0)] if in_words(task) else None
    return {"elements": _rounded(elements), "places": _places(question, elements), "words": words}
