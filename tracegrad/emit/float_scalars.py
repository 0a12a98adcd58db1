"""Scalar operations on float32 and float64, NaN, infinities and signed zeros as in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.llvm import ELEMENTWISE, F32, I32, I64, intrinsic

B: TypeAlias = ir.IRBuilder
V: TypeAlias = ir.Value


def _number(like: V, value: float) -> ir.Constant:
    return ir.Constant(like.type, float(np.float32(value)) if like.type == F32 else value)


def add(b: B, x: V, y: V) -> V:
    return b.fadd(x, y, flags=ELEMENTWISE)


def subtract(b: B, x: V, y: V) -> V:
    return b.fsub(x, y, flags=ELEMENTWISE)


def multiply(b: B, x: V, y: V) -> V:
    return b.fmul(x, y, flags=ELEMENTWISE)


def divide(b: B, x: V, y: V) -> V:
    return b.fdiv(x, y)


def fmod(b: B, x: V, y: V) -> V:
    return b.frem(x, y)


def negative(b: B, x: V) -> V:
    return b.fneg(x)


def positive(b: B, x: V) -> V:
    return x


def absolute(b: B, x: V) -> V:
    return intrinsic(b, "llvm.fabs", x)


def square(b: B, x: V) -> V:
    return multiply(b, x, x)


def reciprocal(b: B, x: V) -> V:
    return b.fdiv(_number(x, 1.0), x)


def rint(b: B, x: V) -> V:
    return intrinsic(b, "llvm.rint", x)


def floor(b: B, x: V) -> V:
    return intrinsic(b, "llvm.floor", x)


def ceil(b: B, x: V) -> V:
    return intrinsic(b, "llvm.ceil", x)


def trunc(b: B, x: V) -> V:
    return intrinsic(b, "llvm.trunc", x)


def copysign(b: B, x: V, y: V) -> V:
    return intrinsic(b, "llvm.copysign", x, y)


def sign(b: B, x: V) -> V:
    zero = _number(x, 0.0)
    nan_or_zero = b.select(b.fcmp_ordered("==", x, zero), zero, x)
    below = b.select(b.fcmp_ordered("<", x, zero), _number(x, -1.0), nan_or_zero)
    return b.select(b.fcmp_ordered(">", x, zero), _number(x, 1.0), below)


def heaviside(b: B, x: V, at_zero: V) -> V:
    zero = _number(x, 0.0)
    step = b.select(b.fcmp_ordered("<", x, zero), zero, _number(x, 1.0))
    known = b.select(b.fcmp_ordered("==", x, zero), at_zero, step)
    return b.select(isnan(b, x), x, known)


def maximum(b: B, x: V, y: V) -> V:
    return b.select(b.or_(b.fcmp_ordered(">=", x, y), isnan(b, x)), x, y)


def minimum(b: B, x: V, y: V) -> V:
    return b.select(b.or_(b.fcmp_ordered("<=", x, y), isnan(b, x)), x, y)


def fmax(b: B, x: V, y: V) -> V:
    return b.select(b.or_(b.fcmp_ordered(">=", x, y), isnan(b, y)), x, y)


def fmin(b: B, x: V, y: V) -> V:
    return b.select(b.or_(b.fcmp_ordered("<=", x, y), isnan(b, y)), x, y)


def clip(b: B, x: V, low: V, high: V) -> V:
    """As np.clip, where of two equal zeros the bound wins."""
    raised = b.select(b.or_(b.fcmp_ordered(">", x, low), isnan(b, x)), x, low)
    return b.select(b.or_(b.fcmp_ordered("<", raised, high), isnan(b, raised)), raised, high)


def zero_multiply(b: B, factor: V, partial: V) -> V:
    """`factor * partial`, but 0 where `factor` is: a cotangent of zero times an unbounded partial is zero."""
    zero = _number(factor, 0.0)
    return b.select(b.fcmp_ordered("==", factor, zero), zero, multiply(b, factor, partial))


def isnan(b: B, x: V) -> V:
    return b.fcmp_unordered("uno", x, x)


def isinf(b: B, x: V) -> V:
    return b.fcmp_ordered("==", absolute(b, x), _number(x, math.inf))


def isfinite(b: B, x: V) -> V:
    return b.fcmp_ordered("<", absolute(b, x), _number(x, math.inf))


def signbit(b: B, x: V) -> V:
    bits = I32 if x.type == F32 else I64
    return b.icmp_signed("<", b.bitcast(x, bits), ir.Constant(bits, 0))


def _divmod(b: B, x: V, y: V) -> tuple[V, V]:
    """Python's divmod for y != 0, by the steps of CPython's float_divmod: the quotient rounded to the nearest integer
    after the remainder has been given the sign of `y`."""
    zero, one = _number(x, 0.0), _number(x, 1.0)
    rest = b.frem(x, y)
    quotient = b.fdiv(b.fsub(x, rest), y)
    exact = b.fcmp_ordered("==", rest, zero)
    opposite = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", rest, zero))
    shift = b.and_(opposite, b.fcmp_unordered("!=", rest, zero))
    rest = b.select(shift, b.fadd(rest, y), b.select(exact, copysign(b, zero, y), rest))
    quotient = b.select(shift, b.fsub(quotient, one), quotient)
    lower = floor(b, quotient)
    too_low = b.fcmp_ordered(">", b.fsub(quotient, lower), _number(x, 0.5))
    rounded = b.select(too_low, b.fadd(lower, one), lower)
    signed_zero = copysign(b, zero, b.fdiv(x, y))
    return b.select(b.fcmp_ordered("==", quotient, zero), signed_zero, rounded), rest


def floor_divide(b: B, x: V, y: V) -> V:
    quotient, _ = _divmod(b, x, y)
    return b.select(b.fcmp_ordered("==", y, _number(y, 0.0)), b.fdiv(x, y), quotient)


def remainder(b: B, x: V, y: V) -> V:
    _, rest = _divmod(b, x, y)
    return b.select(b.fcmp_ordered("==", y, _number(y, 0.0)), b.frem(x, y), rest)


def power(b: B, x: V, y: V) -> V:
    """x**y; small constant exponents are products, exact to an ulp for every x."""
    from tracegrad.emit.scalars import vector_math

    exponent = y.constant if isinstance(y, ir.Constant) else None
    if exponent == 0.0:
        return _number(x, 1.0)
    if exponent == 1.0:
        return x
    if exponent == -1.0:
        return reciprocal(b, x)
    if exponent in (2.0, 3.0):
        squared = b.fmul(x, x)
        return squared if exponent == 2.0 else b.fmul(squared, x)
    return vector_math(b, "pow", (x, y))


def deg2rad(b: B, x: V) -> V:
    return b.fmul(x, _number(x, math.pi / 180.0))


def rad2deg(b: B, x: V) -> V:
    # NumPy divides in the operand's precision, which for float32 is not the nearest to 180/π
    factor = np.float32(180) / np.float32(math.pi) if x.type == F32 else 180.0 / math.pi
    return b.fmul(x, _number(x, float(factor)))


FLOAT: dict[str, Callable[..., V]] = {
    f.__name__: f
    for f in (
        add, subtract, multiply, divide, fmod, negative, positive, absolute, square, reciprocal, rint, floor, ceil,
        trunc, copysign, sign, heaviside, maximum, minimum, fmax, fmin, clip, zero_multiply, isnan, isinf, isfinite,
        signbit, floor_divide, remainder, power, deg2rad, rad2deg,
    )
}  # fmt: skip
FLOAT["float_power"] = power
