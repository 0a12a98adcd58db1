"""The table of scalar operations: what each name of `schedule.loops.Apply` means on registers.

Meanings are NumPy's, special values included. `apply` looks an operation up under the kind of its operands: floats
in `float_scalars`, integers in `int_scalars`, bool here; what is the same for all of them is here too. Mathematical
functions come from `vecmath`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.float_scalars import FLOAT
from tracegrad.emit.int_scalars import INTEGER
from tracegrad.emit.llvm import I1, value_type
from tracegrad.errors import TracegradError

Emit: TypeAlias = Callable[..., ir.Value]

_ORDER = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}


def apply(builder: ir.IRBuilder, op: str, args: Sequence[ir.Value], operand: np.dtype, result: np.dtype) -> ir.Value:
    """Emit `op(*args)`, whose arguments have dtype `operand` (for `where`: all but the first).

    Raises TracegradError where the table has no such operation for that dtype.
    """
    if op == "where":
        return builder.select(*args)
    if op in _ORDER or op in ("equal", "not_equal"):
        return _compare(builder, op, *args, operand)
    if op.startswith("logical_"):
        return BOOL[op](builder, *(_truth(builder, a, operand) for a in args))
    table = {"f": FLOAT, "b": BOOL}.get(operand.kind, INTEGER)
    emit = table.get(op)
    if emit is None:
        if operand.kind != "f":
            raise TracegradError(f"compiled code has no operation {op!r} for dtype {operand}")
        return vector_math(builder, op, args)
    if table is INTEGER:
        return emit(builder, *args, signed=operand.kind == "i")
    return emit(builder, *args)


def vector_math(builder: ir.IRBuilder, op: str, args: Sequence[ir.Value]) -> ir.Value:
    """A function of `vecmath` on floats. Raises TracegradError for a name it does not know."""
    from tracegrad.emit import vecmath

    if op not in vecmath.FUNCTIONS:
        raise TracegradError(f"compiled code has no operation {op!r} for floats")
    return vecmath.emit(op, builder, *args)


def _truth(builder: ir.IRBuilder, value: ir.Value, dtype: np.dtype) -> ir.Value:
    if dtype.kind == "b":
        return value
    zero = ir.Constant(value_type(dtype), 0)
    return builder.fcmp_unordered("!=", value, zero) if dtype.kind == "f" else builder.icmp_signed("!=", value, zero)


def _compare(builder: ir.IRBuilder, op: str, a: ir.Value, b: ir.Value, dtype: np.dtype) -> ir.Value:
    if dtype.kind == "f":
        if op == "not_equal":
            return builder.fcmp_unordered("!=", a, b)
        return builder.fcmp_ordered("==" if op == "equal" else _ORDER[op], a, b)
    if op in ("equal", "not_equal"):
        return builder.icmp_unsigned("==" if op == "equal" else "!=", a, b)
    return (builder.icmp_signed if dtype.kind == "i" else builder.icmp_unsigned)(_ORDER[op], a, b)


def _or(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.or_(a, b)


def _and(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.and_(a, b)


def _xor(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.xor(a, b)


def _not(builder: ir.IRBuilder, a: ir.Value) -> ir.Value:
    return builder.xor(a, ir.Constant(I1, 1))


def _same(builder: ir.IRBuilder, a: ir.Value) -> ir.Value:
    return a


def _false(builder: ir.IRBuilder, a: ir.Value) -> ir.Value:
    return ir.Constant(I1, 0)


def _true(builder: ir.IRBuilder, a: ir.Value) -> ir.Value:
    return ir.Constant(I1, 1)


def _bool_clip(builder: ir.IRBuilder, x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    return builder.and_(builder.or_(x, low), high)


BOOL: dict[str, Emit] = {
    "add": _or, "multiply": _and, "zero_multiply": _and, "maximum": _or, "fmax": _or, "minimum": _and, "fmin": _and,
    "logical_or": _or, "logical_and": _and, "logical_xor": _xor, "logical_not": _not, "invert": _not,
    "bitwise_or": _or, "bitwise_and": _and, "bitwise_xor": _xor, "absolute": _same, "square": _same,
    "floor": _same, "ceil": _same, "trunc": _same, "clip": _bool_clip,
    "isnan": _false, "isinf": _false, "isfinite": _true, "signbit": _false,
}  # fmt: skip
