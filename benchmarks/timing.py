"""Seconds, measured alternately: what disturbs one side of a comparison disturbs the other as well."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def seconds(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


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
