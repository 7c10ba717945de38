"""Our own thread pool on the CPU, for kernels that release the GIL and for torch work in independent parts.

numba's parallel loops can abort or deadlock after a fork and under server threads; serial kernels in our own threads
cannot. Torch operations in these threads use one thread each: where a batch can be split, this avoids synchronizing all
threads after every operation, and each core works in its own cache. Both follow `torch.set_num_threads`.

After an operation of torch on several threads, these keep their cores busy for some milliseconds, waiting for the next
one. Where our threads work between operations of torch, the latter should therefore stay on one thread: `alone`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec

import torch

P = ParamSpec("P")
_pool: ThreadPoolExecutor | None = None
_size = 0
_pool_lock = threading.Lock()
_local = threading.local()
# With OpenMP every thread has its own number of torch threads; other backends set it for the process.
_PER_THREAD = "parallel backend: OpenMP" in torch.__config__.parallel_info()


@contextmanager
def threads_restored() -> Iterator[None]:
    """Restore the number of torch's threads afterwards.

    >>> before = torch.get_num_threads()
    >>> with threads_restored(): torch.set_num_threads(1)
    >>> torch.get_num_threads() == before
    True
    """
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _not_compiled(function: Callable[P, None]) -> Callable[P, None]:
    """A function that torch.compile calls as it is: it cannot trace numba, which compiles when first called."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        run = torch.compiler.disable()(function) if torch.compiler.is_compiling() else function
        run(*args, **kwargs)

    return call


@_not_compiled
def parallel_for(count: int, work: Callable[[int, int, int], object], min_items: int = 1) -> None:
    """Call work(start, stop, worker) on contiguous parts of range(count) in parallel.

    There are as many workers as torch has threads, or fewer where a part would have less than `min_items` items; the
    calling thread does the last part. Every part is done when this returns, and an error in any of them is raised
    here. For kernels: torch operations belong in `parallel_map`.

    >>> seen = [0] * 10
    >>> def mark(start, stop, worker): seen[start:stop] = range(start, stop)
    >>> parallel_for(10, mark); seen
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    total = min(workers(count), count // max(min_items, 1))
    if total <= 1:
        work(0, count, 0)
        return
    edges = [count * i // total for i in range(total + 1)]
    pool = _threads(total)
    futures = [pool.submit(work, edges[i], edges[i + 1], i) for i in range(total - 1)]
    try:
        work(edges[-2], edges[-1], total - 1)
    finally:
        _wait(futures)
    for future in futures:
        future.result()


@_not_compiled
def parallel_map(count: int, work: Callable[[int, int], object], *, one_thread: bool = False) -> None:
    """Call work(item, worker) for every item of range(count), in threads where torch has one thread and no gradients.

    A worker has one item at a time. Where torch has one thread, the calling thread does all of them; a single item too,
    with all of torch's threads unless `one_thread` is set.

    >>> seen = []
    >>> parallel_map(3, lambda item, worker: seen.append(item)); sorted(seen)
    [0, 1, 2]
    """
    total = workers(count) if _PER_THREAD else 1
    if total <= 1 and not (one_thread and count and _PER_THREAD and torch.get_num_threads() > 1):
        for item in range(count):
            work(item, 0)
        return
    inference = torch.is_inference_mode_enabled()

    def run_items(worker: int) -> None:
        with torch.inference_mode(inference), torch.no_grad():  # both modes are per thread
            for item in range(worker, count, total):
                work(item, worker)

    pool = _threads(total)
    futures = [pool.submit(run_items, worker) for worker in range(total)]
    _wait(futures)
    for future in futures:
        future.result()


def workers(count: int) -> int:
    """The number of workers for `count` items; within a worker it is 1, since workers do not nest."""
    if getattr(_local, "is_worker", False):
        return 1
    return max(1, min(getattr(_local, "before_alone", 0) or torch.get_num_threads(), count))


@contextmanager
def alone() -> Iterator[None]:
    """Inside the block, torch operations of this thread use one thread; there are as many workers as before.

    >>> with alone():
    ...     torch.get_num_threads()
    1
    """
    end_alone()  # an error may have interrupted a backward pass
    _begin_alone()
    try:
        yield
    finally:
        end_alone()


def alone_in_backward() -> None:
    """The same for the rest of the backward pass that is being computed, or until `end_alone`."""
    if _begin_alone():
        torch.autograd.Variable._execution_engine.queue_callback(end_alone)


def end_alone() -> None:
    """Give torch operations of this thread back the threads that they had; if they have them, nothing changes."""
    before = getattr(_local, "before_alone", 0)
    if before:
        _local.before_alone = 0
        torch.set_num_threads(before)


def _begin_alone() -> bool:
    """Set one thread for torch; returns whether that changed anything."""
    threads = torch.get_num_threads()
    if threads == 1 or not _PER_THREAD:
        return False
    _local.before_alone = threads
    torch.set_num_threads(1)
    return True


def _wait(futures: list[Future]) -> None:
    for future in futures:
        future.exception()  # all must be done before the arrays that they write to may be freed


def _threads(count: int) -> ThreadPoolExecutor:
    """A pool of at least `count` threads, all of them started."""
    global _pool, _size
    with _pool_lock:
        if _pool is None or _size < count:
            own, size = torch.get_num_threads(), max(count, os.cpu_count() or 1)
            started = threading.Barrier(size + 1)
            pool = ThreadPoolExecutor(size, "setpredict", initializer=_start_worker)
            for _ in range(size):
                pool.submit(started.wait)
            started.wait()
            torch.set_num_threads(own)  # threads started elsewhere take the number that was set last
            _pool, _size = pool, size
        return _pool


def _start_worker() -> None:
    _local.is_worker = True
    torch.get_num_threads()  # makes the thread take the process's number now, not after the next line
    torch.set_num_threads(1)


def _forget_pool() -> None:
    global _pool, _size, _pool_lock
    _pool, _size, _pool_lock = None, 0, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)  # threads do not survive a fork; the child starts its own
