"""Scalar operations on integers of every width: wraparound, and NumPy's answers where C has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.casts import cast
from tracegrad.emit.llvm import F64, I1, I32, I64, alloca, counted_loop, i64, intrinsic
from tracegrad.ir.threefry import PARITY, ROTATIONS, ROUNDS

B: TypeAlias = ir.IRBuilder
V: TypeAlias = ir.Value


def _number(like: V, value: int) -> ir.Constant:
    return ir.Constant(like.type, value)


def add(b: B, x: V, y: V, signed: bool) -> V:
    return b.add(x, y)


def subtract(b: B, x: V, y: V, signed: bool) -> V:
    return b.sub(x, y)


def multiply(b: B, x: V, y: V, signed: bool) -> V:
    return b.mul(x, y)


def negative(b: B, x: V, signed: bool) -> V:
    return b.sub(_number(x, 0), x)


def positive(b: B, x: V, signed: bool) -> V:
    return x


def absolute(b: B, x: V, signed: bool) -> V:
    if not signed:
        return x
    return b.select(b.icmp_signed("<", x, _number(x, 0)), negative(b, x, signed), x)


def sign(b: B, x: V, signed: bool) -> V:
    zero, one = _number(x, 0), _number(x, 1)
    out = b.select(b.icmp_unsigned("!=", x, zero), one, zero)
    return b.select(b.icmp_signed("<", x, zero), _number(x, -1), out) if signed else out


def square(b: B, x: V, signed: bool) -> V:
    return b.mul(x, x)


def reciprocal(b: B, x: V, signed: bool) -> V:
    """1.0 / x cast back, as NumPy computes it: 0 but for x = ±1, and an overflowed cast at x = 0."""
    dtype = np.dtype(f"{'i' if signed else 'u'}{x.type.width // 8}")
    quotient = b.fdiv(ir.Constant(F64, 1.0), cast(b, x, dtype, np.dtype("f8")))
    return cast(b, quotient, np.dtype("f8"), dtype)


def _safe_divisor(b: B, y: V, signed: bool) -> tuple[V, V, V]:
    """A divisor that never traps, and whether `y` is 0 and -1 (where the smallest integer would overflow)."""
    zero = b.icmp_unsigned("==", y, _number(y, 0))
    minus = b.icmp_signed("==", y, _number(y, -1)) if signed else ir.Constant(I1, 0)
    return b.select(b.or_(zero, minus), _number(y, 1), y), zero, minus


def floor_divide(b: B, x: V, y: V, signed: bool) -> V:
    divisor, zero, minus = _safe_divisor(b, y, signed)
    if not signed:
        return b.select(zero, _number(x, 0), b.udiv(x, divisor))
    quotient = b.sdiv(x, divisor)
    rest = b.sub(x, b.mul(quotient, divisor))
    inexact = b.icmp_signed("!=", rest, _number(x, 0))
    opposite = b.icmp_signed("<", b.xor(rest, divisor), _number(x, 0))
    floored = b.sub(quotient, b.zext(b.and_(inexact, opposite), x.type))
    return b.select(zero, _number(x, 0), b.select(minus, negative(b, x, True), floored))


def remainder(b: B, x: V, y: V, signed: bool) -> V:
    divisor, zero, minus = _safe_divisor(b, y, signed)
    if not signed:
        return b.select(zero, _number(x, 0), b.urem(x, divisor))
    rest = b.srem(x, divisor)
    inexact = b.icmp_signed("!=", rest, _number(x, 0))
    opposite = b.icmp_signed("<", b.xor(rest, divisor), _number(x, 0))
    rest = b.select(b.and_(inexact, opposite), b.add(rest, divisor), rest)
    return b.select(b.or_(zero, minus), _number(x, 0), rest)


def fmod(b: B, x: V, y: V, signed: bool) -> V:
    divisor, zero, minus = _safe_divisor(b, y, signed)
    rest = b.srem(x, divisor) if signed else b.urem(x, divisor)
    return b.select(b.or_(zero, minus), _number(x, 0), rest)


def power(b: B, x: V, y: V, signed: bool) -> V:
    """x**y by repeated squaring, modulo 2**width. A negative exponent (an error in NumPy) gives 0, or a power of ±1."""
    if isinstance(y, ir.Constant) and 0 <= y.constant <= 8:
        return _constant_power(b, x, y.constant)
    slots = [alloca(b, x.type) for _ in range(3)]
    for slot, start in zip(slots, (_number(x, 1), x, y)):
        b.store(start, slot)
    result, base, exponent = slots
    with counted_loop(b, i64(0), i64(x.type.width), name="power"):
        left, factor, so_far = (b.load(slot, typ=x.type) for slot in (exponent, base, result))
        b.store(b.select(b.trunc(left, I1), b.mul(so_far, factor), so_far), result)
        b.store(b.mul(factor, factor), base)
        b.store(b.lshr(left, _number(left, 1)), exponent)
    out = b.load(result, typ=x.type)
    if not signed:
        return out
    unit = b.or_(b.icmp_signed("==", x, _number(x, 1)), b.icmp_signed("==", x, _number(x, -1)))
    negative_exponent = b.icmp_signed("<", y, _number(y, 0))
    return b.select(b.and_(negative_exponent, b.xor(unit, ir.Constant(I1, 1))), _number(x, 0), out)


def _constant_power(b: B, x: V, exponent: int) -> V:
    out: V | None = None
    base = x
    while exponent:
        if exponent & 1:
            out = base if out is None else b.mul(out, base)
        exponent >>= 1
        if exponent:
            base = b.mul(base, base)
    return _number(x, 1) if out is None else out


def maximum(b: B, x: V, y: V, signed: bool) -> V:
    return intrinsic(b, "llvm.smax" if signed else "llvm.umax", x, y)


def minimum(b: B, x: V, y: V, signed: bool) -> V:
    return intrinsic(b, "llvm.smin" if signed else "llvm.umin", x, y)


def clip(b: B, x: V, low: V, high: V, signed: bool) -> V:
    return minimum(b, maximum(b, x, low, signed), high, signed)


def zero_multiply(b: B, factor: V, partial: V, signed: bool) -> V:
    return b.mul(factor, partial)


def bitwise_and(b: B, x: V, y: V, signed: bool) -> V:
    return b.and_(x, y)


def bitwise_or(b: B, x: V, y: V, signed: bool) -> V:
    return b.or_(x, y)


def bitwise_xor(b: B, x: V, y: V, signed: bool) -> V:
    return b.xor(x, y)


def invert(b: B, x: V, signed: bool) -> V:
    return b.not_(x)


def left_shift(b: B, x: V, y: V, signed: bool) -> V:
    """0 where the count is negative or not below the width."""
    inside = b.icmp_unsigned("<", y, _number(y, x.type.width))
    return b.select(inside, b.shl(x, b.select(inside, y, _number(y, 0))), _number(x, 0))


def right_shift(b: B, x: V, y: V, signed: bool) -> V:
    """0, or -1 for negative numbers, where the count is negative or not below the width."""
    inside = b.icmp_unsigned("<", y, _number(y, x.type.width))
    count = b.select(inside, y, _number(y, x.type.width - 1 if signed else 0))
    return b.ashr(x, count) if signed else b.select(inside, b.lshr(x, count), _number(x, 0))


def random_bits(b: B, key: V, counter: V, signed: bool) -> V:
    """Threefry2x32 on the words of two 64-bit integers, as `tracegrad.ops.random_bits` describes it."""
    keys = [b.trunc(key, I32), b.trunc(b.lshr(key, _number(key, 32)), I32)]
    keys.append(b.xor(b.xor(keys[0], keys[1]), ir.Constant(I32, PARITY)))
    x = b.add(b.trunc(counter, I32), keys[0])
    y = b.add(b.trunc(b.lshr(counter, _number(counter, 32)), I32), keys[1])
    for turn in range(ROUNDS // 4):
        for rotation in ROTATIONS[turn % 2]:
            x = b.add(x, y)
            y = b.xor(b.or_(b.shl(y, _number(y, rotation)), b.lshr(y, _number(y, 32 - rotation))), x)
        x = b.add(x, keys[(turn + 1) % 3])
        y = b.add(y, b.add(keys[(turn + 2) % 3], _number(y, turn + 1)))
    return b.or_(b.zext(x, I64), b.shl(b.zext(y, I64), i64(32)))


def isnan(b: B, x: V, signed: bool) -> V:
    return ir.Constant(I1, 0)


def isfinite(b: B, x: V, signed: bool) -> V:
    return ir.Constant(I1, 1)


def signbit(b: B, x: V, signed: bool) -> V:
    return b.icmp_signed("<", x, _number(x, 0)) if signed else ir.Constant(I1, 0)


INTEGER: dict[str, Callable[..., V]] = {
    f.__name__: f
    for f in (
        add, subtract, multiply, negative, positive, absolute, sign, square, reciprocal, floor_divide, remainder, fmod,
        power, maximum, minimum, clip, zero_multiply, bitwise_and, bitwise_or, bitwise_xor, invert, left_shift,
        right_shift, random_bits, isnan, isfinite, signbit,
    )
}  # fmt: skip
INTEGER.update(fmax=maximum, fmin=minimum, isinf=isnan, floor=positive, ceil=positive, trunc=positive)
