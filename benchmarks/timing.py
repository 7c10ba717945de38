"""Times measured in alternation: what disturbs one side of a comparison disturbs the other as well."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
clock = "wall"


def seconds(work: Callable[[], object]) -> float:
    """The time of a call: wall-clock time, or CPU time of the process, which other processes disturb less."""
    gc.collect()
    now = CLOCKS[clock]
    start = now()
    work()
    return now() - start


def alternately(workloads: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The least time of each workload in that many rounds, after a round that warms up."""
    for work in workloads.values():
        work()
    best = dict.fromkeys(workloads, float("inf"))
    for _ in range(rounds):
        for name, work in workloads.items():
            best[name] = min(best[name], seconds(work))
    return best
