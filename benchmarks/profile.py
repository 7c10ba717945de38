"""Where the time of our steps goes: matrix products, pooling, and everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from setpredict.decoders.fast import objective, step

PRODUCTS = ("aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm")
POOLING = "pooling"
PROFILED = (
    "mnist_full",
    "mnist_decode",
    "clevr_full",
    "clevr_k1",
    "small_set_full",
    "small_set_k1",
    "small_set_decode",
)
"""Workloads that are profiled, where they are measured."""


def shares(work: Callable[[], object], repeats: int = 3) -> dict[str, float]:
    """Fractions of the time of a workload on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # work in our own threads would be counted as waiting
    with _marked_pooling():
        work()
        with profile(activities=[ProfilerActivity.CPU]) as found:
            for _ in range(repeats):
                work()
    torch.set_num_threads(before)
    times = {event.key: event.self_cpu_time_total for event in found.key_averages()}
    whole = sum(times.values())
    products = sum(times.get(name, 0.0) for name in PRODUCTS) / whole
    pooling = times.get(POOLING, 0.0) / whole
    return {"products": products, "pooling": pooling, "rest": 1 - products - pooling}


@contextmanager
def _marked_pooling() -> Iterator[None]:
    """Calls of the pooling kernels have a name in the profile."""
    places: list[tuple[Any, str]] = [(step, name) for name in ("pool", "pool_and_loss", "pool_backward")]
    places.append((objective, "pool"))
    originals = [getattr(*place) for place in places]
    for (module, name), function in zip(places, originals):
        setattr(module, name, _marked(function))
    try:
        yield
    finally:
        for (module, name), function in zip(places, originals):
            setattr(module, name, function)


def _marked(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def marked(*args: Any, **options: Any) -> Any:
        with record_function(POOLING):
            return function(*args, **options)

    return marked
