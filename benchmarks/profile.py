"""Where the time of our steps goes: matrix products and convolutions, pooling, and everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.kernel_parts import pooling_alone, products_alone
from setpredict.decoders.fast import linear, network, objective, step
from setpredict.decoders.fast.sample_step import SampleKernels

PRODUCTS, POOLING = "products", "pooling"
TORCH_PRODUCTS = ("aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm")
CONVOLUTIONS = ("aten::mkldnn_convolution", "aten::convolution_backward")
PROFILED = (
    "mnist_full",
    "mnist_decode",
    "clevr_full",
    "clevr_k1",
    "small_set_full",
    "small_set_k1",
    "small_set_decode",
    "image_dspn",
    "image_idspn",
)
"""Workloads that are profiled, where they are measured."""


def shares(work: Callable[[], object], repeats: int = 3) -> dict[str, float]:
    """Fractions of the time of a workload on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # work in our own threads would be counted as waiting
    with _marked():
        work()
        with profile(activities=[ProfilerActivity.CPU]) as found:
            for _ in range(repeats):
                work()
    torch.set_num_threads(before)
    times = {event.key: event.self_cpu_time_total for event in found.key_averages()}
    repeated = sum(times.get(f"repeated {name}", 0.0) for name in (PRODUCTS, POOLING))
    whole = sum(times.values()) - repeated
    names = PRODUCTS, f"repeated {PRODUCTS}", *TORCH_PRODUCTS, *CONVOLUTIONS
    products = sum(times.get(name, 0.0) for name in names) / whole
    pooling = sum(times.get(name, 0.0) for name in (POOLING, f"repeated {POOLING}")) / whole
    return {"products": products, "pooling": pooling, "rest": 1 - products - pooling}


@contextmanager
def _marked() -> Iterator[None]:
    """Calls of the kernels have a name in the profile; of those that do everything, the parts run once more alone."""
    names = {POOLING: [(step, "pool"), (step, "pool_and_loss"), (step, "pool_backward"), (objective, "pool")]}
    names[PRODUCTS] = [(linear, "_product"), (network, "add_product")]
    wrapped = [(owner, name, _named(mark, getattr(owner, name))) for mark in names for owner, name in names[mark]]
    wrapped += [(SampleKernels, name, _with_parts(getattr(SampleKernels, name))) for name in ("forward", "backward")]
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in wrapped]
    for place in wrapped:
        setattr(*place)
    try:
        yield
    finally:
        for place in originals:
            setattr(*place)


def _named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def marked(*args: Any, **options: Any) -> Any:
        with record_function(name):
            return function(*args, **options)

    return marked


def _with_parts(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, and then the products and the pooling of its kernel alone."""

    @wraps(method)
    def marked(kernels: SampleKernels, y: torch.Tensor, other: torch.Tensor, *args: Any, **options: Any) -> Any:
        result = method(kernels, y, other, *args, **options)
        run = len(y), len(other), method.__name__ == "backward", options.get("gradients", True)
        for name, part in ((PRODUCTS, products_alone), (POOLING, pooling_alone)):
            with record_function(f"repeated {name}"):
                part(kernels, *run)
        return result

    return marked
