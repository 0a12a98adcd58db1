"""NumPy's astype on one scalar."""

from __future__ import annotations

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.llvm import F64, I32, I64, value_type


def cast(builder: ir.IRBuilder, value: ir.Value, source: np.dtype, target: np.dtype) -> ir.Value:
    """`value` of dtype `source` as `target`.

    Floats outside an integer's range become what NumPy's C casts give on x86-64: the smallest int32 or int64, and for
    narrower or unsigned types its low bits.
    """
    if source == target:
        return value
    if target.kind == "b":
        zero = ir.Constant(value.type, 0)
        compare = builder.fcmp_unordered if source.kind == "f" else builder.icmp_signed
        return compare("!=", value, zero)
    wide = value_type(target)
    if source.kind == "f" and target.kind == "f":
        return builder.fpext(value, wide) if target.itemsize > source.itemsize else builder.fptrunc(value, wide)
    if target.kind == "f":
        return builder.sitofp(value, wide) if source.kind == "i" else builder.uitofp(value, wide)
    if source.kind == "f":
        return _float_to_int(builder, value, target)
    if value.type.width > wide.width:
        return builder.trunc(value, wide)
    if value.type.width == wide.width:
        return value
    return builder.sext(value, wide) if source.kind == "i" else builder.zext(value, wide)


def _float_to_int(builder: ir.IRBuilder, value: ir.Value, target: np.dtype) -> ir.Value:
    if target == np.uint64:  # values from 2**63 on are converted 2**63 lower
        half = ir.Constant(value.type, 2.0**63)
        low = _truncate(builder, value, I64)
        high = builder.xor(_truncate(builder, builder.fsub(value, half), I64), ir.Constant(I64, -(2**63)))
        return builder.select(builder.fcmp_ordered(">=", value, half), high, low)
    wide = value_type(target)
    through = I64 if target == np.int64 or target == np.uint32 else I32
    out = _truncate(builder, value, through)
    return builder.trunc(out, wide) if wide.width < through.width else out


def _truncate(builder: ir.IRBuilder, value: ir.Value, wide: ir.IntType) -> ir.Value:
    """The conversion of x86: out of range, and NaN, are the smallest integer (fptosi alone would be undefined)."""
    if value.type != F64 and wide == I32:
        value = builder.fpext(value, F64)
    bound = 2.0 ** (wide.width - 1)
    below = builder.fcmp_ordered("<", value, ir.Constant(value.type, bound))
    above = builder.fcmp_ordered(">=" if wide == I64 else ">", value, ir.Constant(value.type, -bound - (wide == I32)))
    inside = builder.and_(below, above)
    safe = builder.select(inside, value, ir.Constant(value.type, 0.0))
    smallest = ir.Constant(wide, -(2 ** (wide.width - 1)))
    return builder.select(inside, builder.fptosi(safe, wide), smallest)
