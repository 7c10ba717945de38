"""Temporary modes: evaluation, and tracing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from weakref import WeakKeyDictionary

import torch
from torch import nn

_TRACED: ContextVar[bool] = ContextVar("traced", default=False)
_lock = Lock()
_evaluated: WeakKeyDictionary[nn.Module, tuple[int, dict[nn.Module, bool]]] = WeakKeyDictionary()
"""Models in evaluation mode: how many blocks each is in, in all threads, and the modes of its layers before."""


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; afterwards every layer is back in its own mode, frozen ones included.

    Several threads may be inside at once: the last one to leave restores the modes.
    """
    with _lock:
        count, modes = _evaluated.get(model, (0, {}))
        if not count:
            modes = {module: module.training for module in model.modules()}
            model.eval()
        _evaluated[model] = count + 1, modes
    try:
        yield
    finally:
        with _lock:
            count, modes = _evaluated.pop(model)
            if count > 1:
                _evaluated[model] = count - 1, modes
            else:
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


def is_plain() -> bool:
    """Whether torch just computes: not inside torch.func, forward-mode differentiation, a dispatch mode (FLOP counters,
    make_fx), a tracer or a compiler, in which tensors need not have an address or a value."""
    return (
        torch._C._functorch.peek_interpreter_stack() is None  # pyright: ignore[reportAttributeAccessIssue]
        and torch._C._len_torch_dispatch_stack() == 0
        and torch.autograd.forward_ad._current_level < 0
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
    )


def refuse_second_derivatives() -> None:
    """Raise in a backward pass that others will differentiate (`create_graph=True`), where ours leave terms out.

    `once_differentiable` raises only if the gradient that arrives depends on something; otherwise, terms are missing.
    """
    if torch.is_grad_enabled():
        raise RuntimeError("the fast inner step cannot be differentiated twice: use DSPN(..., fast=False)")
