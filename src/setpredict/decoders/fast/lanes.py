"""Explicit vectors in numba kernels: `LANES` numbers that are computed at once, one channel each.

The compiler vectorizes a loop only if it can prove that arrays do not overlap, which it cannot for rows of one buffer.
A vector loaded from an array is a value, so nothing has to be proven. LLVM maps it to the registers that the processor
has, wide or narrow. Positions in arrays are counted in numbers from the start of a contiguous array.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

LANES = 16
CONTRACT = ("contract",)  # a product and a sum may be rounded once


class LanesType(types.Type):
    """The type of a vector of `LANES` numbers."""

    def __init__(self, dtype: types.Type):
        self.dtype = dtype
        super().__init__(name=f"Lanes({dtype})")


@register_model(LanesType)
class LanesModel(models.PrimitiveModel):
    """A vector is an LLVM vector."""

    def __init__(self, dmm: Any, fe_type: LanesType):
        super().__init__(dmm, fe_type, ir.VectorType(dmm.lookup(fe_type.dtype).get_value_type(), LANES))


def pointer_to(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    """A pointer to the number at a position of an array."""
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [at])


@intrinsic
def load(typing_context, array, at):
    """The `LANES` numbers of an array from position `at`."""
    kind = LanesType(array.dtype)

    def codegen(context, builder, signature, args):
        vector = context.get_value_type(kind)
        pointer = pointer_to(context, builder, signature.args[0], *args)
        return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=array.dtype.bitwidth // 8)

    return kind(array, types.intp), codegen


@intrinsic
def prefetch(typing_context, array, at):
    """Ask for the cache line at position `at`, which may lie beyond the array's end."""

    def codegen(context, builder, signature, args):
        pointer = builder.bitcast(pointer_to(context, builder, signature.args[0], *args), cgutils.voidptr_t)
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.none(array, types.intp), codegen


@intrinsic
def store(typing_context, array, at, vector):
    """Write a vector to an array from position `at`."""

    def codegen(context, builder, signature, args):
        pointer = pointer_to(context, builder, signature.args[0], args[0], args[1])
        pointer = builder.bitcast(pointer, args[2].type.as_pointer())
        builder.store(args[2], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.none(array, types.intp, vector), codegen


def _elements(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
    """Pointers to array[at + LANES · row + c] for every lane c, where row is the integer rows[rows_at + c] & mask.

    Integers are read from memory one by one: that takes half the time of extracting them from a vector.
    """
    array, at, rows, rows_at, mask = args[:5]
    pointers = []
    for c in range(LANES):
        lane = ir.Constant(at.type, c)
        row = builder.load(pointer_to(context, builder, signature.args[2], rows, builder.add(rows_at, lane)))
        row = builder.and_(builder.zext(row, at.type), mask)
        index = builder.add(builder.add(builder.mul(row, ir.Constant(at.type, LANES)), at), lane)
        pointers.append(pointer_to(context, builder, signature.args[0], array, index))
    return pointers


@intrinsic
def gather(typing_context, array, at, rows, rows_at, mask):
    """array[at + LANES · (rows[rows_at + c] & mask) + c] for every lane c."""
    kind = LanesType(array.dtype)

    def codegen(context, builder, signature, args):
        result = ir.Constant(context.get_value_type(kind), ir.Undefined)
        for c, pointer in enumerate(_elements(context, builder, signature, args)):
            result = builder.insert_element(result, builder.load(pointer), ir.Constant(ir.IntType(32), c))
        return result

    return kind(array, types.intp, rows, types.intp, types.intp), codegen


@intrinsic
def scatter(typing_context, array, at, rows, rows_at, mask, values, values_at):
    """array[at + LANES · (rows[rows_at + c] & mask) + c] = values[values_at + c] for every lane c."""

    def codegen(context, builder, signature, args):
        for c, pointer in enumerate(_elements(context, builder, signature, args)):
            place = builder.add(args[6], ir.Constant(args[6].type, c))
            builder.store(builder.load(pointer_to(context, builder, signature.args[5], args[5], place)), pointer)
        return context.get_dummy_value()

    return types.none(array, types.intp, rows, types.intp, types.intp, values, types.intp), codegen


@intrinsic
def scatter_one(typing_context, array, at, rows, rows_at, mask, value):
    """array[at + LANES · (rows[rows_at + c] & mask) + c] = value for every lane c."""

    def codegen(context, builder, signature, args):
        for pointer in _elements(context, builder, signature, args):
            builder.store(args[5], pointer)
        return context.get_dummy_value()

    return types.none(array, types.intp, rows, types.intp, types.intp, array.dtype), codegen


@intrinsic
def add_scattered(typing_context, array, at, rows, rows_at, mask, values):
    """array[at + LANES · (rows[rows_at + c] & mask) + c] += values[c] for every lane c of a vector."""

    def codegen(context, builder, signature, args):
        for c, pointer in enumerate(_elements(context, builder, signature, args)):
            value = builder.extract_element(args[5], ir.Constant(ir.IntType(32), c))
            builder.store(builder.fadd(builder.load(pointer), value), pointer)
        return context.get_dummy_value()

    return types.none(array, types.intp, rows, types.intp, types.intp, values), codegen


@intrinsic
def fill(typing_context, value):
    """A vector whose numbers are all the same."""
    kind = LanesType(value)

    def codegen(context, builder, signature, args):
        vector = context.get_value_type(kind)
        zero = ir.Constant(ir.IntType(32), 0)
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), args[0], zero)
        mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
        return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), mask)

    return kind(value), codegen


@intrinsic
def to_int(typing_context, vector):
    """Numbers truncated to int32; any integer for what is no int32."""
    kind = LanesType(types.int32)

    def codegen(context, builder, signature, args):
        target = context.get_value_type(kind)
        if isinstance(vector.dtype, types.Float):
            return builder.fptosi(args[0], target)
        return builder.zext(args[0], target) if vector.dtype.bitwidth < 32 else args[0]

    return kind(vector), codegen


@intrinsic
def zero_unless_less(typing_context, a, b, values):
    """The values where a < b, and 0 elsewhere; a and b are floating-point numbers."""

    def codegen(context, builder, signature, args):
        none = ir.Constant(args[2].type, None)
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[2], none)

    return values(a, a, values), codegen


@intrinsic
def total(typing_context, vector):
    """The sum over the lanes, of floating-point numbers."""

    def codegen(context, builder, signature, args):
        parts = args[0]
        width = LANES
        while width > 1:
            width //= 2
            mask = [ir.Constant(ir.IntType(32), c + width if c < width else c) for c in range(LANES)]
            mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), mask)
            parts = builder.fadd(parts, builder.shuffle_vector(parts, parts, mask))
        return builder.extract_element(parts, ir.Constant(ir.IntType(32), 0))

    return vector.dtype(vector), codegen


@intrinsic
def any_less(typing_context, a, b):
    """Whether a < b in any lane, for integers."""

    def codegen(context, builder, signature, args):
        less = builder.icmp_signed("<", *args)
        return builder.icmp_unsigned("!=", builder.bitcast(less, ir.IntType(LANES)), ir.Constant(ir.IntType(LANES), 0))

    return types.boolean(a, b), codegen


def _binary(integer: str, floating: str | None) -> Any:
    """An operation on two vectors of the same type: the names of LLVM's instructions."""

    @intrinsic
    def operation(typing_context, a, b):
        def codegen(context, builder, signature, args):
            if isinstance(a.dtype, types.Float):
                return getattr(builder, str(floating))(*args, flags=CONTRACT)
            return getattr(builder, integer)(*args)

        return a(a, a), codegen

    return operation


def _select(comparison: str) -> Any:
    """The first vector where the comparison holds, else the second."""

    @intrinsic
    def operation(typing_context, a, b):
        def codegen(context, builder, signature, args):
            compare = builder.fcmp_ordered if isinstance(a.dtype, types.Float) else builder.icmp_signed
            return builder.select(compare(comparison, *args), *args)

        return a(a, a), codegen

    return operation


smaller, larger = _select("<"), _select(">")
"""The smaller and the larger of two numbers, lane by lane; the second one if one of them is NaN."""


def _operator(symbol: Any, operation: Any) -> None:
    @overload(symbol)
    def on_lanes(a, b):
        if isinstance(a, LanesType) and isinstance(b, LanesType):
            return lambda a, b: operation(a, b)
        return None


for _symbol, _names in {
    operator.add: ("add", "fadd"),
    operator.sub: ("sub", "fsub"),
    operator.mul: ("mul", "fmul"),
    operator.truediv: ("sdiv", "fdiv"),
    operator.and_: ("and_", None),
    operator.or_: ("or_", None),
    operator.xor: ("xor", None),
    operator.lshift: ("shl", None),
}.items():
    _operator(_symbol, _binary(*_names))
