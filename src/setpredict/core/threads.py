"""Our own threads on a CPU: for kernels that release the GIL, and for torch work that is best done apart.

numba's parallel loops can abort or deadlock after a fork and under server threads; serial kernels in threads of our own
cannot. Torch's operations in these threads have one thread each: where a batch can be split, that spares the meeting of
all threads after every operation, and each core works in its own cache. Both follow `torch.set_num_threads`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import torch

_pool: ThreadPoolExecutor | None = None
_size = 0
_making = threading.Lock()
_inside = threading.local()
_SPLITS = "parallel backend: OpenMP" in torch.__config__.parallel_info()  # others count threads for the whole process


def parallel_for(count: int, work: Callable[[int, int, int], object], least: int = 1) -> None:
    """Call work(start, stop, worker) on parts of range(count), side by side, the last part in the calling thread.

    There are as many workers as torch has threads, or fewer where a part would have less than `least` items. Every part
    is done when this returns; an error in one is raised here. For kernels: torch's own operations go into `apart`.

    >>> seen = [0] * 10
    >>> def mark(start, stop, worker): seen[start:stop] = range(start, stop)
    >>> parallel_for(10, mark); seen
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    total = min(workers(count), count // max(least, 1))
    if total <= 1:
        work(0, count, 0)
        return
    edges = [count * i // total for i in range(total + 1)]
    pool = _threads(total)
    waiting = [pool.submit(work, edges[i], edges[i + 1], i) for i in range(total - 1)]
    try:
        work(edges[-2], edges[-1], total - 1)
    finally:
        _wait(waiting)
    for future in waiting:
        future.result()


def parallel_map(count: int, work: Callable[[int, int], object]) -> None:
    """Call work(item, worker) for all of range(count), in threads in which torch has one thread and no gradients.

    A worker has one item at a time. With one item, or where torch has one thread, the calling thread does it all.

    >>> seen = []
    >>> parallel_map(3, lambda item, worker: seen.append(item)); sorted(seen)
    [0, 1, 2]
    """
    total = workers(count) if _SPLITS else 1
    if total <= 1:
        for item in range(count):
            work(item, 0)
        return
    inference = torch.is_inference_mode_enabled()

    def several(worker: int) -> None:
        with torch.inference_mode(inference), torch.no_grad():  # both belong to a thread
            for item in range(worker, count, total):
                work(item, worker)

    pool = _threads(total)
    waiting = [pool.submit(several, worker) for worker in range(total)]
    _wait(waiting)
    for future in waiting:
        future.result()


def workers(count: int) -> int:
    """How many workers there are for that many items; a worker gives its work to nobody else."""
    if getattr(_inside, "worker", False):
        return 1
    return max(1, min(torch.get_num_threads(), count))


def _wait(waiting: list[Future]) -> None:
    for future in waiting:
        future.exception()  # all must be done before what they write to may go


def _threads(count: int) -> ThreadPoolExecutor:
    """A pool of at least so many threads, all of them started."""
    global _pool, _size
    with _making:
        if _pool is None or _size < count:
            own, size = torch.get_num_threads(), max(count, os.cpu_count() or 1)
            met = threading.Barrier(size + 1)
            pool = ThreadPoolExecutor(size, "setpredict", initializer=_begin)
            for _ in range(size):
                pool.submit(met.wait)
            met.wait()
            torch.set_num_threads(own)  # threads that others start take the number that was set last
            _pool, _size = pool, size
        return _pool


def _begin() -> None:
    _inside.worker = True
    torch.get_num_threads()  # the thread takes the process's number now, not after the next line
    torch.set_num_threads(1)


def _forget() -> None:
    global _pool, _size, _making
    _pool, _size, _making = None, 0, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)  # threads do not survive a fork; the child makes its own
