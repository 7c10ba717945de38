"""What the figures were measured on, and how fast that machine multiplies matrices."""

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
    """FLOP/s of torch's float32 matrix product, the best of a square one and one of the encoder's shape."""
    rates = []
    for rows, inner, columns in ((2048, 2048, 2048), (2736, 256, 256)):
        a, b, out = torch.randn(rows, inner), torch.randn(inner, columns), torch.empty(rows, columns)
        best = min(seconds(lambda a=a, b=b, out=out: torch.mm(a, b, out=out)) for _ in range(repeats))
        rates.append(2 * rows * inner * columns / best)
    return max(rates)


def training_flops(B: int, T: int, rows: int, sizes: list[int], encode: bool) -> float:
    """FLOPs of the products in one training step with full backpropagation: rows × Σ of neighboring layer sizes.

    A step is two passes forward and four back (the tangent, the network, and the weights twice); the first one shares
    forward and one way back over the batch. One pass for the last loss; three to encode the input, if it is a set.
    """
    one = 2 * rows * sum(a * b for a, b in itertools.pairwise(sizes))
    return one * (3 + 3 * B + 6 * B * (T - 1) + B + 3 * B * encode)


def decoding_flops(B: int, T: int, rows: int, sizes: list[int]) -> float:
    one = 2 * rows * sum(a * b for a, b in itertools.pairwise(sizes))
    return one * (1 + B + 2 * B * (T - 1) + B)


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
