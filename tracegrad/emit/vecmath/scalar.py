"""Scalar values with operators: how vecmath writes LLVM IR that still reads as mathematics.

`Real` wraps a float or double, `Bits` the integer of the same width, and `Flag` an i1. No instruction carries
fast-math flags, because the compensated arithmetic below depends on every rounding. There are no branches: `where`
is a select, so that a loop over these expressions vectorises.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from llvmlite import ir

from tracegrad.records import record


@record
class Format:
    """An IEEE binary format: its LLVM types and the constants that bit tricks need."""

    type: ir.Type
    integer: ir.IntType
    mantissa: int  # stored bits of the significand
    bias: int

    @property
    def tiny(self) -> float:
        """Relative changes below this are far below half a unit in the last place."""
        return 2.0 ** -(self.mantissa // 2 + 2)

    @property
    def magic(self) -> float:
        """Adding 1.5 * 2**mantissa rounds to an integer and leaves it in the low bits."""
        return 1.5 * 2.0**self.mantissa

    @property
    def sign_mask(self) -> int:
        return 1 << (self.integer.width - 1)


DOUBLE = Format(ir.DoubleType(), ir.IntType(64), 52, 1023)
SINGLE = Format(ir.FloatType(), ir.IntType(32), 23, 127)


@record
class Flag:
    builder: ir.IRBuilder
    value: ir.Value

    def __and__(self, other: Flag) -> Flag:
        return Flag(self.builder, self.builder.and_(self.value, other.value))

    def __or__(self, other: Flag) -> Flag:
        return Flag(self.builder, self.builder.or_(self.value, other.value))

    def __invert__(self) -> Flag:
        return Flag(self.builder, self.builder.not_(self.value))


@record
class Bits:
    builder: ir.IRBuilder
    value: ir.Value

    def _constant(self, other: Bits | int) -> ir.Value:
        return other.value if isinstance(other, Bits) else ir.Constant(self.value.type, other)

    def __add__(self, other: Bits | int) -> Bits:
        return Bits(self.builder, self.builder.add(self.value, self._constant(other)))

    def __and__(self, other: Bits | int) -> Bits:
        return Bits(self.builder, self.builder.and_(self.value, self._constant(other)))

    def __or__(self, other: Bits | int) -> Bits:
        return Bits(self.builder, self.builder.or_(self.value, self._constant(other)))

    def __xor__(self, other: Bits | int) -> Bits:
        return Bits(self.builder, self.builder.xor(self.value, self._constant(other)))

    def __lshift__(self, count: int) -> Bits:
        return Bits(self.builder, self.builder.shl(self.value, self._constant(count)))

    def __rshift__(self, count: int) -> Bits:
        """Logical shift."""
        return Bits(self.builder, self.builder.lshr(self.value, self._constant(count)))

    def is_zero(self) -> Flag:
        return Flag(self.builder, self.builder.icmp_unsigned("==", self.value, self._constant(0)))

    def real(self) -> Real:
        target = DOUBLE if self.value.type.width == 64 else SINGLE
        return Real(self.builder, self.builder.bitcast(self.value, target.type))


@record
class Real:
    builder: ir.IRBuilder
    value: ir.Value

    @property
    def format(self) -> Format:
        return DOUBLE if isinstance(self.value.type, ir.DoubleType) else SINGLE

    def constant(self, other: Real | float) -> ir.Value:
        return other.value if isinstance(other, Real) else ir.Constant(self.value.type, float(other))

    def like(self, other: Real | float) -> Real:
        return other if isinstance(other, Real) else Real(self.builder, self.constant(other))

    def __add__(self, other: Real | float) -> Real:
        return Real(self.builder, self.builder.fadd(self.value, self.constant(other)))

    def __radd__(self, other: float) -> Real:
        return Real(self.builder, self.builder.fadd(self.constant(other), self.value))

    def __sub__(self, other: Real | float) -> Real:
        return Real(self.builder, self.builder.fsub(self.value, self.constant(other)))

    def __rsub__(self, other: float) -> Real:
        return Real(self.builder, self.builder.fsub(self.constant(other), self.value))

    def __mul__(self, other: Real | float) -> Real:
        return Real(self.builder, self.builder.fmul(self.value, self.constant(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Real | float) -> Real:
        return Real(self.builder, self.builder.fdiv(self.value, self.constant(other)))

    def __rtruediv__(self, other: float) -> Real:
        return Real(self.builder, self.builder.fdiv(self.constant(other), self.value))

    def __neg__(self) -> Real:
        return Real(self.builder, self.builder.fneg(self.value))

    def _compare(self, predicate: str, other: Real | float) -> Flag:
        return Flag(self.builder, self.builder.fcmp_ordered(predicate, self.value, self.constant(other)))

    def __lt__(self, other: Real | float) -> Flag:
        return self._compare("<", other)

    def __le__(self, other: Real | float) -> Flag:
        return self._compare("<=", other)

    def __gt__(self, other: Real | float) -> Flag:
        return self._compare(">", other)

    def __ge__(self, other: Real | float) -> Flag:
        return self._compare(">=", other)

    def equals(self, other: Real | float) -> Flag:
        return self._compare("==", other)

    def bits(self) -> Bits:
        return Bits(self.builder, self.builder.bitcast(self.value, self.format.integer))

    def intrinsic(self, name: str, *others: Real | float) -> Real:
        operands = [self.value, *(self.constant(other) for other in others)]
        kind = self.value.type
        function = self.builder.module.declare_intrinsic(name, [kind], ir.FunctionType(kind, [kind] * len(operands)))
        return Real(self.builder, self.builder.call(function, operands))

    def extended(self) -> Real:
        return Real(self.builder, self.builder.fpext(self.value, DOUBLE.type))

    def truncated(self) -> Real:
        return Real(self.builder, self.builder.fptrunc(self.value, SINGLE.type))


def where(condition: Flag, yes: Real | float, no: Real | float, like: Real | None = None) -> Real:
    """yes or no; if both are numbers, `like` gives their format."""
    model = yes if isinstance(yes, Real) else no if isinstance(no, Real) else like
    if model is None:
        raise TypeError("where() between two numbers needs like=")
    return Real(model.builder, model.builder.select(condition.value, model.constant(yes), model.constant(no)))


def fma(a: Real, b: Real | float, c: Real | float) -> Real:
    """a*b + c, rounded once."""
    return a.intrinsic("llvm.fma", b, c)


def fabs(x: Real) -> Real:
    return x.intrinsic("llvm.fabs")


def sqrt(x: Real) -> Real:
    return x.intrinsic("llvm.sqrt")


def rint(x: Real) -> Real:
    return x.intrinsic("llvm.rint")


def copysign(magnitude: Real, sign: Real) -> Real:
    return magnitude.intrinsic("llvm.copysign", sign)


def at_most(x: Real, bound: float) -> Real:
    """min(x, bound), NaN kept."""
    return where(x > bound, bound, x)


def at_least(x: Real, bound: float) -> Real:
    """max(x, bound), NaN kept."""
    return where(x < bound, bound, x)


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """Horner's rule; coefficients from the lowest power."""
    total = x.like(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = fma(total, x, coefficient)
    return total


def pair(x: Real, high: float, low: float) -> tuple[float, float]:
    """high + low as two constants of x's format."""
    if x.format is DOUBLE:
        return high, low
    first = struct.unpack("f", struct.pack("f", high))[0]
    return first, (high - first) + low


def rounded(x: Real, factor: float) -> Real:
    """x*factor + magic: the nearest integer to x*factor sits in the low bits. Subtract the magic to read it."""
    return fma(x, factor, x.format.magic)


def power_of_two(k: Real, extra: int = 0) -> Real:
    """2**(k + extra) for an integer-valued k, if that is a normal number or zero (exponent field 0)."""
    form = k.format
    return ((k + (form.magic + form.bias + extra)).bits() << form.mantissa).real()
