"""Seconds, measured alternately: what disturbs one side of a comparison disturbs the other as well."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
clock = "wall"


def seconds(work: Callable[[], object]) -> float:
    """By the wall clock, or by the CPU time of the process, which other processes disturb less."""
    gc.collect()
    now = CLOCKS[clock]
    start = now()
    work()
    return now() - start


def alternately(
    works: dict[str, Callable[[], object]], repeats: int, tell: Callable[[], object] = lambda: None
) -> dict[str, float]:
    """The least time of each of `works` in `repeats` rounds, after one that is not counted."""
    for work in works.values():
        work()
        tell()
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repeats):
        for name, work in works.items():
            best[name] = min(best[name], seconds(work))
            tell()
    return best
