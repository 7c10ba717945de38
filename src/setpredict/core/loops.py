"""A loop over tensors that a trace (`core.modes.tracing`) holds once, however many steps it takes.

Tracing runs the step once. Two operators mark where the loop begins and ends; whoever translates the trace turns what
is between them into a loop (`export/loop.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.onnx.ops
from torch import Tensor

DOMAIN, BEGIN, END = "setpredict", "LoopBegin", "LoopEnd"

State = tuple[Tensor, ...]
Shape = Sequence[int | torch.SymInt]


def traced_loop(step: Callable[[State], tuple[State, State]], state: State, count: int) -> tuple[State, State]:
    """Take `count` steps in a trace: every state after the first, and every measured value, each stacked to (T, …).

    Args:
        step: From a state to the next one, and to values that the next step does not need.
        state: The first state. Its tensors keep their shapes.
        count: T, at least 1.
    """
    new, measured = step(_mark(BEGIN, state, [x.shape for x in state], {}))
    leaving = (*new, *measured)
    stacked = _mark(END, leaving, [(count, *x.shape) for x in leaving], {"steps": count, "states": len(state)})
    return stacked[: len(state)], stacked[len(state) :]


def _mark(name: str, tensors: State, shapes: Sequence[Shape], attributes: dict[str, Any]) -> State:
    return tuple(
        torch.onnx.ops.symbolic_multi_out(
            f"{DOMAIN}::{name}", tensors, attributes, dtypes=[x.dtype for x in tensors], shapes=shapes, version=1
        )
    )
