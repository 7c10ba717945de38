"""Export a set predictor: which tensors go in and come out, and what the file says about them."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from setpredict import __version__
from setpredict.config import ModelConfig, to_json
from setpredict.config.inner import check_has_steps
from setpredict.core.errors import UserError, not_installed
from setpredict.data.description import to_description
from setpredict.data.task import SetTask
from setpredict.export.quiet import quiet
from setpredict.sets import Prediction, Sets


@runtime_checkable
class Predictor(Protocol):
    """What is exported: a `SetPredictor`."""

    config: ModelConfig | None

    @property
    def steps(self) -> int: ...

    @property
    def max_steps(self) -> int | None: ...

    @property
    def is_built_in(self) -> bool: ...

    def __call__(self, input: Any, *, steps: int | None = None) -> Prediction: ...


def export_predictor(
    model: Predictor, path: str | Path, steps: int | None, trajectory: bool, task: SetTask | None, name: str | None
) -> None:
    """Write a model to an ONNX file; `SetPredictor.to_onnx` explains the arguments."""
    config = _check(model, steps)
    try:
        from setpredict.export.onnx_file import write_onnx
    except ModuleNotFoundError as e:
        raise not_installed("the export", e, "export") from None
    from setpredict.export.trace import trace

    assert isinstance(model, nn.Module)
    weight = next(model.parameters())
    if weight.device.type != "cpu":
        model = deepcopy(model).cpu()
    inputs = example(config, 1, weight.dtype)
    outputs = ["elements", "mask"]

    def compute(first: Tensor, *mask: Tensor) -> tuple[Tensor, ...]:
        prediction = model(_as_input(config, first, *mask), steps=steps)
        if not trajectory:
            return prediction.final.elements, prediction.final.mask
        losses = () if prediction.repr_loss is None else (prediction.repr_loss,)
        outputs[2:] = ["repr_loss"][: len(losses)]
        return prediction.elements, prediction.mask, *losses

    taken = model.steps if steps is None else steps
    with quiet():
        program = trace(model, compute, list(inputs.values()))
        write_onnx(program, path, list(inputs), outputs, _metadata(config, taken, trajectory, task, name))


def example(config: ModelConfig, batch: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """Inputs of the right shapes by their names in the file."""
    wants = config.input
    if wants.kind == "vector":
        return {"input": torch.rand(batch, wants.size, dtype=dtype)}
    if wants.kind != "set":
        return {"input": torch.rand(batch, 3, wants.size, wants.size, dtype=dtype)}
    size = config.input_capacity
    mask = {"input_mask": torch.ones(batch, size, dtype=torch.bool)} if config.input_varies else {}
    return {"input": torch.rand(batch, size, wants.size, dtype=dtype), **mask}


def _as_input(config: ModelConfig, first: Tensor, mask: Tensor | None = None) -> Tensor | Sets:
    if config.input.kind != "set":
        return first
    if mask is None:
        return Sets(first, torch.ones_like(first[..., 0], dtype=torch.bool))
    return Sets(first.masked_fill(~mask[..., None], 0), mask)  # what it removes does not matter


def _check(model: Predictor, steps: int | None) -> ModelConfig:
    if model.config is None:
        raise UserError("this model was put together by hand; only one of SetPredictor.from_config can be exported")
    if not model.is_built_in:
        own = next(kind for kind in (model.config.encoder.kind, model.config.decoder.kind) if ":" in kind)
        raise UserError(f"{own} is code of its own; only built-in encoders and decoders can be exported")
    if model.config.decoder.kind == "bilstm":
        raise UserError("a bilstm cannot be exported: PyTorch's tracer fixes the size of its batch")
    if steps is None:
        return model.config
    check_has_steps(model.steps, [steps], model.config.decoder.kind, "steps")
    if steps < 0:
        raise UserError(f"steps must be 0 or more, got {steps}")
    if model.max_steps is not None and steps > model.max_steps:
        raise UserError(f"this {model.config.decoder.kind} takes at most {model.max_steps} steps, got {steps}")
    return model.config


def _metadata(
    config: ModelConfig, steps: int, trajectory: bool, task: SetTask | None, name: str | None
) -> dict[str, str]:
    """All as text; what is not text is JSON."""
    found = {
        "setpredict": __version__,
        "config": json.dumps(to_json(config)),
        "steps": json.dumps(steps),
        "trajectory": json.dumps(trajectory),
        "threshold": "0.5",
    }
    if name is not None:
        found["model"] = name
    if task is not None:
        found["task"] = json.dumps(to_description(task))
    return found
