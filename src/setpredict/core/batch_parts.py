"""Compute a batch in parts, so that no sample's result depends on its batch or on the number of threads (on a CPU).

A row of a matrix product is computed alike whatever the other rows are, to the bit, with two exceptions: BLAS has other
kernels for fewer than `FEWEST_ROWS` rows, and several threads may divide the work differently. So every part is
computed by one thread, and parts with few rows are padded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from setpredict.core.threads import parallel_map, workers

FEWEST_ROWS = 4
THREAD_ROWS = 256  # fewer rows are not worth a thread


@runtime_checkable
class Samples(Protocol):
    """A batch: a tensor, `Sets` or a `Code`."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: slice | Tensor, /) -> Samples: ...


S = TypeVar("S", bound=Samples)
Result = TypeVar("Result")


def compute_in_parts(
    samples: S, compute: Callable[[S], Result], *, rows: int = 1, thread_rows: int = THREAD_ROWS
) -> list[tuple[int, Result]]:
    """(n, compute(part)) for contiguous parts of a batch, in order; the first n samples of each result count.

    Args:
        samples: The batch.
        compute: Takes a part of it. It must be safe to call from several threads.
        rows: How many rows a sample has in matrix products. Parts with fewer than `FEWEST_ROWS` rows are padded with
            copies of their last sample.
        thread_rows: How many rows are worth a thread.

    >>> compute_in_parts(torch.arange(5.0), lambda part: part * 2)
    [(5, tensor([0., 2., 4., 6., 8.]))]
    >>> compute_in_parts(torch.arange(2.0), lambda part: part * 2)
    [(2, tensor([0., 2., 2., 2.]))]
    """
    B, fewest = len(samples), -(-FEWEST_ROWS // rows)
    count = workers(min(B, B * rows // thread_rows))
    edges = [B * i // count for i in range(count + 1)]
    results: list[tuple[int, Result]] = [None] * count  # pyright: ignore[reportAssignmentType]

    def one(i: int, worker: int) -> None:
        part: Any = samples[edges[i] : edges[i + 1]]
        n = len(part)
        if 0 < n < fewest:
            part = part[torch.arange(fewest).clamp(max=n - 1)]
        results[i] = n, compute(part)

    parallel_map(count, one, one_thread=True)
    return results


def pad_rows(rows: Float[Tensor, "M K"]) -> Float[Tensor, "P K"]:
    """At least `FEWEST_ROWS` rows: these, then zeros."""
    missing = FEWEST_ROWS - rows.shape[0]
    return rows if missing <= 0 else torch.nn.functional.pad(rows, (0, 0, 0, missing))
