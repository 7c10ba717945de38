"""Sorting many short rows on a CPU: buckets first, then an insertion sort that has little left to do.

The values of a row are distributed over twice as many equal buckets as there are values, which keeps their order, and
only neighbors remain to be sorted. Rows that defeat this (an outlier that squeezes all others into one bucket, an
infinite value) go through a merge sort. Equal values stay in their order, as in torch's sort on CPUs.
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np

BUCKETS = 2  # per value
MOVES = 8  # per value: beyond that the insertion sort gives up


@numba.njit(cache=True, nogil=True)
@no_type_check
def sort_row(row, values, sources, bucket, start):
    """Sort `row` in ascending order into values[0], with the index that each value came from in sources[0].

    For rows of n values, `values` and `sources` (int32) are (2, n), `bucket` (int32) has n and `start` (int32) 2n + 2.
    """
    key, source = values[0], sources[0]
    n = len(row)
    low, high = ends(row)
    span = high - low
    factor = (BUCKETS * n - 1) / span if span > 0 else np.inf
    done = 0 < factor < 1e30  # not so for NaN
    if done:
        distribute(row, low, row.dtype.type(factor), bucket, start, key, source)
        done = insert(key, source, n)
    else:
        for i in range(n):
            key[i] = row[i]
            source[i] = i
        done = span == 0
    if not done:
        merge(values, sources, n)


@numba.njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
@no_type_check
def ends(row):
    """The smallest and largest value; anything if there is a NaN, which `sort_row` must expect."""
    low, high = row[0], row[0]
    for i in range(1, len(row)):
        low = row[i] if row[i] < low else low
        high = row[i] if row[i] > high else high
    return low, high


@numba.njit(cache=True, nogil=True)
@no_type_check
def distribute(row, low, factor, bucket, start, key, source):
    """Distribute over the buckets. Rounding keeps the order, so a value never lands behind a larger one's bucket."""
    n = len(row)
    last = BUCKETS * n
    for i in range(n):
        bucket[i] = min(max(np.int32((row[i] - low) * factor), 0), last - 1)
    start[: last + 1] = 0
    for i in range(n):
        start[bucket[i] + 1] += 1
    total = 0
    for b in range(1, last + 1):
        total += start[b]
        start[b] = total
    for i in range(n):
        at = start[bucket[i]]
        start[bucket[i]] = at + 1
        key[at] = row[i]
        source[at] = i


@numba.njit(cache=True, nogil=True)
@no_type_check
def insert(key, source, n):
    """Insertion sort, or False if it gave up; the values are all there then, in some order."""
    left = MOVES * n
    for i in range(1, n):
        value = key[i]
        if value < key[i - 1]:
            origin = source[i]
            j = i
            while j > 0 and value < key[j - 1]:
                key[j] = key[j - 1]
                source[j] = source[j - 1]
                j -= 1
            key[j] = value
            source[j] = origin
            left -= i - j
            if left < 0:
                return False
    return True


@numba.njit(cache=True, nogil=True)
@no_type_check
def merge(values, sources, n):
    """Merge sort, bottom up; among equal values the earlier index comes first. NaN ends up anywhere."""
    width = 1
    while width < n:
        for begin in range(0, n, 2 * width):
            middle, end = min(begin + width, n), min(begin + 2 * width, n)
            a, b = begin, middle
            for out in range(begin, end):
                if a < middle and (b >= end or not values[0, b] < values[0, a]):
                    values[1, out], sources[1, out] = values[0, a], sources[0, a]
                    a += 1
                else:
                    values[1, out], sources[1, out] = values[0, b], sources[0, b]
                    b += 1
        values[0, :n] = values[1, :n]
        sources[0, :n] = sources[1, :n]
        width *= 2
