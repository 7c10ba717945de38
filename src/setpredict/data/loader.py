"""Loader: the batches of one epoch in a fixed order, starting at any batch, for any rank, loaded ahead by threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from setpredict.core.errors import UserError
from setpredict.core.rng import key as make_key
from setpredict.data.batch import Batch, Split


class Loader:
    """An iterable of batches with a length; every iteration gives the same batches."""

    def __init__(
        self,
        split: Split,
        batch_size: int,
        *,
        key: tuple[int | str, ...],
        epoch: int,
        start: int,
        shuffle: bool,
        only_full: bool,
        workers: int,
        rank: int,
        world_size: int,
    ) -> None:
        if batch_size < 1:
            raise UserError(f"batch_size must be at least 1, got {batch_size}")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank must be from 0 to world_size - 1 = {world_size - 1}, got {rank}")
        if workers < 0:
            raise UserError(f"workers must be at least 0, got {workers}")
        if len(split) == 0:
            raise UserError("cannot load batches: the split is empty")
        self.split, self.epoch, self.workers = split, epoch, workers
        order = np.arange(len(split))
        if shuffle:
            order = np.random.default_rng(make_key("order", *key)).permutation(order)
        self.batches = _rank_batches(order, batch_size, rank, world_size, only_full)
        if not 0 <= start <= len(self.batches):
            raise UserError(f"start must be from 0 to {len(self.batches)} batches, got {start}")
        self.batches = self.batches[start:]

    def __len__(self) -> int:
        """The number of batches, without the first `start` that are skipped."""
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        if self.workers == 0:
            for indices in self.batches:
                yield self.split.batch(indices, self.epoch)
            return
        # Threads, not processes: numpy, numba and Pillow release the GIL, and nothing has to be forked, pickled or
        # restarted in each epoch.
        ahead = 2 * self.workers
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="loader")
        try:
            waiting: deque[Future[Batch]] = deque()
            for indices in self.batches:
                waiting.append(pool.submit(self.split.batch, indices, self.epoch))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _rank_batches(order: np.ndarray, batch_size: int, rank: int, world_size: int, only_full: bool) -> list[np.ndarray]:
    """The batches of one rank: each round of batch_size · world_size samples is divided into one batch per rank."""
    together = batch_size * world_size
    full = len(order) // together * together
    rounds = order[:full].reshape(-1, world_size, batch_size)[:, rank]  # (rounds, batch_size)
    batches = list(rounds)
    rest = order[full:]
    if only_full and full == 0:  # less data than one round: one smaller batch, of the same size on all ranks
        each = len(rest) // world_size
        if each == 0:
            raise UserError(f"{len(rest)} samples are too few for {world_size} ranks")
        return [rest[rank * each : (rank + 1) * each]]
    if not only_full and len(rest):
        part = np.array_split(rest, world_size)[rank]
        if len(part):
            batches.append(part)
    return batches
