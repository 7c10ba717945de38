"""Matrix products inside of kernels: the rows of one sample times a matrix, while both are in the cache.

A tile of a few rows and `LANES` columns is summed up in registers. Every number is the sum over k in order, one fused
multiply-add after the other, so a row's result does not depend on the other rows, to the bit. For the few rows of a
small set, this reaches a rate that BLAS reaches only for large matrices, and a call costs nothing.
"""

from __future__ import annotations

from typing import Any, no_type_check

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from torch import Tensor

from setpredict.core.jit import kernel
from setpredict.decoders.fast.lanes import LANES, pointer_to

FEATURES: str | None = numba.config.CPU_FEATURES  # pyright: ignore[reportAttributeAccessIssue]  # None: the processor's
AVX512 = llvm.get_host_cpu_features().get("avx512f") if FEATURES is None else "+avx512f" in FEATURES
TALL = 12 if AVX512 else 6  # rows of a tile: what fits into the registers
HEIGHTS = TALL, TALL // 2, TALL // 3, 1


def _tile(rows: int) -> Any:
    """An intrinsic: out[r, :] = start[r, :] + Σ_k a[r, k] b[k, :] for that many rows and `LANES` columns.

    Of every array, a position and strides are given: for a those of r and k, for b that of k, for the others that of r.
    """

    @intrinsic
    def tile(
        typing_context, a, a_at, a_row, a_step, b, b_at, b_step, start, start_at, start_row, out, out_at, out_row, depth
    ):
        def codegen(context, builder, signature, args):
            (_, a_at, a_row, a_step, _, b_at, b_step, _, start_at, start_row, _, out_at, out_row, depth) = args
            count, number = depth.type, context.get_value_type(signature.args[0].dtype)
            vector = ir.VectorType(number, LANES)
            name = f"llvm.fma.v{LANES}f{signature.args[0].dtype.bitwidth}"
            fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)

            def pointer(i: int, at: Any, stride: Any, r: int, kind: Any) -> Any:
                place = builder.add(at, builder.mul(stride, count(r)))
                return builder.bitcast(
                    pointer_to(context, builder, signature.args[i], args[i], place), kind.as_pointer()
                )

            left = [pointer(0, a_at, a_row, r, number) for r in range(rows)]
            right = pointer(4, b_at, b_step, 0, number)
            align = signature.args[0].dtype.bitwidth // 8
            before = [builder.load(pointer(7, start_at, start_row, r, vector), align=align) for r in range(rows)]
            entry, loop, end = builder.block, builder.append_basic_block("depth"), builder.append_basic_block("end")
            builder.branch(loop)
            builder.position_at_end(loop)
            k, sums = builder.phi(count), [builder.phi(vector) for _ in range(rows)]
            row = builder.bitcast(builder.gep(right, [builder.mul(k, b_step)]), vector.as_pointer())
            factor, here = builder.load(row, align=align), builder.mul(k, a_step)
            after = []
            for r in range(rows):
                one = builder.insert_element(
                    ir.Constant(vector, ir.Undefined), builder.load(builder.gep(left[r], [here])), ir.IntType(32)(0)
                )
                all_lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
                each = builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), all_lanes)
                after.append(builder.call(fma, [each, factor, sums[r]]))
            following = builder.add(k, count(1))
            for value, first, then in zip([k, *sums], [count(0), *before], [following, *after]):
                value.add_incoming(first, entry)
                value.add_incoming(then, loop)
            builder.cbranch(builder.icmp_signed("<", following, depth), loop, end)
            builder.position_at_end(end)
            for r in range(rows):
                builder.store(after[r], pointer(10, out_at, out_row, r, vector), align=align)
            return context.get_dummy_value()

        n = types.intp
        return types.none(a, n, n, n, b, n, n, start, n, n, out, n, n, n), codegen

    return tile


tall, half, third, single = (_tile(rows) for rows in HEIGHTS)


@kernel
@no_type_check
def multiply(a, depth, packed, start, out, rows, columns):
    """out (rows, columns) = a (rows, depth) · b + start (columns), where b (depth, columns) is `packed`."""
    for j in range(0, columns, LANES):
        strip(a, depth, 1, packed, j * depth, LANES, start, j, 0, out, j, columns, depth, rows)


@kernel
@no_type_check
def add_transposed(a, b, out, depth, rows, columns):
    """out (rows, columns) += aᵀ · b, of a (depth, rows) and b (depth, columns): the gradient of a matrix."""
    for j in range(0, columns, LANES):
        strip(a, 1, rows, b, j, columns, out, j, columns, out, j, columns, depth, rows)


@kernel
@no_type_check
def strip(a, a_row, a_step, b, b_at, b_step, start, start_at, start_row, out, out_at, out_row, depth, rows):
    """`LANES` columns of a product, by tiles as tall as possible."""
    i = 0
    while i < rows:
        at = a, i * a_row, a_row, a_step, b, b_at, b_step, start, start_at + i * start_row, start_row
        to = out, out_at + i * out_row, out_row
        if i + HEIGHTS[0] <= rows:
            tall(*at, *to, depth)
            i += HEIGHTS[0]
        elif i + HEIGHTS[1] <= rows:
            half(*at, *to, depth)
            i += HEIGHTS[1]
        elif i + HEIGHTS[2] <= rows:
            third(*at, *to, depth)
            i += HEIGHTS[2]
        else:
            single(*at, *to, depth)
            i += 1


def pack(matrix: Tensor) -> Tensor:
    """A matrix (K, N) in the order in which `multiply` reads it: (⌈N / LANES⌉, K, LANES), padded with zeros."""
    matrix = matrix.detach()
    padded = matrix.new_zeros(matrix.shape[0], -(-matrix.shape[1] // LANES) * LANES)
    padded[:, : matrix.shape[1]] = matrix
    return padded.unflatten(1, (-1, LANES)).transpose(0, 1).contiguous()
