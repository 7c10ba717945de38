"""Temporary modes: evaluation, and tracing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import nn

_TRACED: ContextVar[bool] = ContextVar("traced", default=False)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; afterwards every layer is back in its own mode, frozen ones included."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


@contextmanager
def tracing() -> Iterator[None]:
    """Inside the block, tensors stand for values that are not known yet: nothing may depend on them but tensors."""
    token = _TRACED.set(True)
    try:
        yield
    finally:
        _TRACED.reset(token)


def is_tracing() -> bool:
    """Whether values are unknown: checks of values are skipped, and no step is left out because of them."""
    return _TRACED.get()
