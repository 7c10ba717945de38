"""Our own threads for CPU kernels that release the GIL.

numba's parallel loops can abort or deadlock after a fork and under server threads; serial kernels in threads of our own
cannot, and they follow `torch.set_num_threads` like everything else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

_pool: ThreadPoolExecutor | None = None


def spread(count: int, work: Callable[[int, int, int], object], least: int = 1) -> None:
    """Call work(start, stop, worker) on parts of range(count), side by side, the last part in the calling thread.

    There are as many workers as torch has threads, or fewer where a part would have less than `least` items. Every part
    is done when this returns; an error in one is raised here.

    >>> seen = [0] * 10
    >>> def mark(start, stop, worker): seen[start:stop] = range(start, stop)
    >>> spread(10, mark); seen
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    workers = max(1, min(torch.get_num_threads(), count // max(least, 1)))
    if workers == 1:
        work(0, count, 0)
        return
    edges = [count * i // workers for i in range(workers + 1)]
    pool = _threads()
    waiting = [pool.submit(work, edges[i], edges[i + 1], i) for i in range(workers - 1)]
    try:
        work(edges[-2], edges[-1], workers - 1)
    finally:
        for future in waiting:
            future.exception()  # all must be done before their arrays may go
    for future in waiting:
        future.result()


def workers(count: int) -> int:
    """The most workers that `spread` numbers for that many items."""
    return max(1, min(torch.get_num_threads(), count))


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="setpredict")
    return _pool


def _forget() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)  # threads do not survive a fork; the child makes its own
