"""The machine that the results were measured on, and how fast it multiplies matrices."""

from __future__ import annotations

import datetime
import itertools
import os
import platform
from pathlib import Path

import numba
import numpy
import torch

from benchmarks.timing import seconds


def describe() -> dict[str, str | int]:
    """Processor, versions, time and load."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "numba": numba.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "load": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "",
    }


def matmul_rate(repeats: int = 20) -> float:
    """FLOP/s of torch's float32 matrix product, the better of a square one and one of the encoder's shape."""
    rates = []
    for rows, inner, columns in ((2048, 2048, 2048), (2736, 256, 256)):
        a, b, out = torch.randn(rows, inner), torch.randn(inner, columns), torch.empty(rows, columns)
        best = min(seconds(lambda a=a, b=b, out=out: torch.mm(a, b, out=out)) for _ in range(repeats))
        rates.append(2 * rows * inner * columns / best)
    return max(rates)


def training_flops(B: int, T: int, rows: int, sizes: list[int], encode: bool) -> float:
    """FLOPs of the matrix products in one unrolled training step: rows × the sum over pairs of adjacent layer sizes.

    An inner step is two forward passes and four backward (the tangent, the network, and the weights twice); the first
    one shares the forward pass and one backward pass over the batch. One pass is for the last loss, and three encode
    the input if it is a set.
    """
    one = 2 * rows * sum(a * b for a, b in itertools.pairwise(sizes))
    return one * (3 + 3 * B + 6 * B * (T - 1) + B + 3 * B * encode)


def decoding_flops(B: int, T: int, rows: int, sizes: list[int]) -> float:
    """FLOPs of the matrix products in decoding without gradients; the first step is shared over the batch."""
    one = 2 * rows * sum(a * b for a, b in itertools.pairwise(sizes))
    return one * (1 + B + 2 * B * (T - 1) + B)


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
