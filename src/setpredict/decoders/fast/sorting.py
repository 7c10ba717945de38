"""Sorting one row of numbers together with their indices: by insertion if it is nearly in order, else by merging."""

from __future__ import annotations

from typing import no_type_check

from setpredict.core.jit import kernel

MOVES = 8  # per value: beyond that the insertion sort gives up


@kernel
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


@kernel
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
