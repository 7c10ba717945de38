"""Sorting the numbers of every lane at once, by a network that has no branches and no data-dependent addresses.

A number becomes an integer: its place between the smallest and the largest number of its lane in the high bits, and the
index where it stands in the low bits. Integers are compared and exchanged in two instructions, and carry their index
along. Numbers that share a place in the high bits are put in order afterwards, which is rarely needed. Equal numbers
stay in their order.

The network is Batcher's bitonic sort in the form where every exchange moves the larger number to the higher row, so
that rows beyond the last hold the largest integer and stay where they are. Several of its layers are applied to a group
of rows while these are in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, no_type_check

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from setpredict.core.jit import kernel
from setpredict.decoders.fast.lanes import LANES, any_less, fill, larger, load, smaller, store, to_int, zero_unless_less
from setpredict.decoders.fast.sorting import insert, merge

LARGEST = np.int32(2**31 - 1)


def _exchanges(pairs: Sequence[tuple[int, int]]) -> Any:
    """An intrinsic that compares pairs of rows (LANES numbers each) of an int32 array, the smaller numbers first."""

    @intrinsic
    def apply(typing_context, rows, indices):
        def codegen(context, builder, signature, args):
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            base = builder.bitcast(data, ir.VectorType(ir.IntType(32), LANES).as_pointer())
            count = signature.args[1].count
            pointers = [builder.gep(base, [builder.extract_value(args[1], i)]) for i in range(count)]
            values = [builder.load(pointer, align=4) for pointer in pointers]
            for a, b in pairs:
                ordered = builder.icmp_signed("<", values[a], values[b])
                low, high = (values[a], values[b]), (values[b], values[a])
                values[a], values[b] = builder.select(ordered, *low), builder.select(ordered, *high)
            for value, pointer in zip(values, pointers):
                builder.store(value, pointer, align=4)
            return context.get_dummy_value()

        return types.none(rows, indices), codegen

    return apply


FOUR_HALVES = [(0, 2), (1, 3), (0, 1), (2, 3)]
EIGHT_HALVES = [(i, i + 4) for i in range(4)] + [(i + a, i + b) for i in (0, 4) for a, b in FOUR_HALVES]
HALVES = [(0, 2), (1, 3), (4, 6), (5, 7), (0, 4), (1, 5), (2, 6), (3, 7), (0, 1), (2, 3), (4, 5), (6, 7)]
sort_8 = _exchanges([*HALVES, (2, 4), (3, 5), (1, 4), (3, 6), (1, 2), (3, 4), (5, 6)])
exchange = _exchanges([(0, 1)])
mirror_4 = _exchanges([(0, 3), (1, 2), (0, 1), (2, 3)])
halve_4 = _exchanges(FOUR_HALVES)
halve_8 = _exchanges(EIGHT_HALVES)


@kernel
@no_type_check
def row_capacity(n):
    """How many rows the network needs for n: the next power of 2, at least 8."""
    rows = 8
    while rows < n:
        rows *= 2
    return rows


@kernel
@no_type_check
def sort_rows(rows, n):
    """Sort the lanes of the first n rows; there are `row_capacity(n)`, and those beyond n hold the largest integer."""
    for i in range(0, n, 8):
        sort_8(rows, (i, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7))
    half = 8
    while half < n:  # pairs of sorted parts of that length become one; a part without a second one is in order
        step = half // 2
        for begin in range(0, n - half, 2 * half):
            end = begin + 2 * half - 1
            padding = max(0, end - step + 1 - n)  # so many i compare with rows beyond the last only, which stay
            for i in range(min(padding, step)):
                exchange(rows, (begin + i, begin + i + step))
            for i in range(min(padding, step), step):
                mirror_4(rows, (begin + i, begin + i + step, end - i - step, end - i))
            merge_halves(rows, begin, min(n, end + 1), step // 2)
        half *= 2


@kernel
@no_type_check
def merge_halves(rows, first, last, distance):
    """The layers that compare rows at this distance, at half of it, and so on; two or three of them at once."""
    while distance > 0:
        if distance == 2 or distance == 8 or distance == 16:
            step = distance // 2
            for begin in range(first, last, 4 * step):
                for i in range(begin, begin + step):
                    halve_4(rows, (i, i + step, i + 2 * step, i + 3 * step))
        else:
            step = distance // 4
            for begin in range(first, last, 8 * step):
                for i in range(begin, begin + step):
                    # fmt: off
                    halve_8(rows, (i, i + step, i + 2 * step, i + 3 * step,
                                   i + 4 * step, i + 5 * step, i + 6 * step, i + 7 * step))
                    # fmt: on
        distance = step // 2


@kernel
@no_type_check
def order(keys, n, rows, values, sources):
    """The order of n rows of keys, lane by lane: rows[r] & mask is the index of the number of rank r. Returns the mask.

    `keys` and `rows` (int32) are flat, of n and `row_capacity(n)` rows. `values` (2, m) and `sources` (3, m), int32,
    are buffers, where m is at least n and `LANES`.
    """
    bits = 1
    while 1 << bits < n:
        bits += 1
    one = np.int32(1 << bits)
    quantize(keys, n, bits, rows)
    last = fill(LARGEST)
    for r in range(n, row_capacity(n)):
        store(rows, r * LANES, last)
    sort_rows(rows, n)
    nearest = last  # two numbers in the same place differ in low bits only
    for r in range(n - 1):
        nearest = smaller(nearest, load(rows, r * LANES) ^ load(rows, (r + 1) * LANES))
    if any_less(nearest, fill(one)):
        closest = sources[2]
        store(closest, 0, nearest)
        for c in range(LANES):
            if closest[c] < one:
                finish(keys, n, c, one - 1, rows, values, sources)
    return np.int32(one - 1)


@kernel
@no_type_check
def quantize(keys, n, bits, rows):
    """Integers with a key's place in the high bits (0 in lanes without a finite span) and its row in the low ones."""
    low = high = load(keys, 0)
    for r in range(1, n):
        key = load(keys, r * LANES)
        low, high = smaller(low, key), larger(high, key)
    factor = fill(keys.dtype.type(0.999 * 2.0 ** (31 - bits))) / (high - low)
    factor = zero_unless_less(factor, fill(keys.dtype.type(1e30)), factor)  # not so for NaN
    shift = fill(np.int32(bits))
    for r in range(n):
        place = to_int((load(keys, r * LANES) - low) * factor)
        store(rows, r * LANES, (place << shift) | fill(np.int32(r)))


@kernel
@no_type_check
def finish(keys, n, c, mask, rows, values, sources):
    """Sort one lane, which is nearly in order, by the numbers themselves."""
    for r in range(n):
        source = rows[r * LANES + c] & mask
        sources[0, r] = source
        values[0, r] = keys[source * LANES + c]
    if not insert(values[0], sources[0], n):
        merge(values, sources, n)
    for r in range(n):
        rows[r * LANES + c] = sources[0, r]
