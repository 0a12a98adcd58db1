"""Exponentials and logarithms.

exp, exp2, expm1: x = k*log(2) + r with |r| <= log(2)/2 (Cody and Waite), a polynomial in r, and a scaling by 2**k in
two steps, so that subnormal results round once and the overflow threshold is exact.

log, log2, log10, log1p: x = 2**k * m with m in [sqrt(1/2), sqrt(2)), s = f/(2 + f) for f = m - 1, and
log(m) = 2*atanh(s), arranged as in FDLIBM's e_log.c and s_log1p.c (Sun Microsystems, 1993) so that the polynomial
only corrects f - f*f/2.
"""

from __future__ import annotations

import math

from tracegrad.emit.vecmath import coefficients as C
from tracegrad.emit.vecmath.registry import elementary
from tracegrad.emit.vecmath.scalar import Real, at_least, at_most, fabs, fma, polynomial, power_of_two, rounded, where

LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_TAIL = 2.3190468138462996e-17  # log(2) - LN2
# log(2) in two parts, the first with 21 trailing zero bits, so that k*LN2_HIGH is exact (FDLIBM's split)
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
ONE_BITS = 0x3FF0000000000000


def reduce_exp(x: Real) -> tuple[Real, Real, Real]:
    """k, r and the part of r that rounding took: x = k*log(2) + r + tail. For |x| < 2**20."""
    k = rounded(x, LOG2E) - x.format.magic
    first = fma(k, -LN2_HIGH, x)
    r = fma(k, -LN2_LOW, first)
    return k, r, fma(k, -LN2_LOW, first - r)


def exp_rest(r: Real, single: bool) -> Real:
    """exp(r) - 1 - r for |r| <= log(2)/2."""
    return (r * r) * polynomial(r, C.EXP_S if single else C.EXP)


def scale(value: Real, k: Real, subnormal: int = -1021) -> Real:
    """value * 2**k for value near 1 and -1076 <= k <= 1024, rounded once also where the result is subnormal."""
    low = k < float(subnormal)
    form = k.format
    power = (
        (k + where(low, form.magic + form.bias + 100, form.magic + form.bias - 1, k)).bits() << form.mantissa
    ).real()
    return value * power * where(low, 2.0**-100, 2.0, k)


def exp_double_double(high: Real, low: Real, single: bool) -> tuple[Real, Real]:
    """k and exp(high + low)/2**k for -746 <= high <= 710 and |low| < 2**-20."""
    k, r, tail = reduce_exp(high)
    return k, 1.0 + (r + (exp_rest(r, single) + (tail + low)))


@elementary("exp")
def exp(x: Real, single: bool) -> Real:
    x = at_least(at_most(x, 90.0), -110.0) if single else at_least(at_most(x, 710.0), -746.0)
    k, r, _ = reduce_exp(x)
    value = fma(fma(polynomial(r, C.EXP_S if single else C.EXP), r, 1.0), r, 1.0)
    return value * power_of_two(k) if single else scale(value, k)


@elementary("exp2")
def exp2(x: Real, single: bool) -> Real:
    x = at_least(at_most(x, 130.0), -160.0) if single else at_least(at_most(x, 1024.0), -1076.0)
    k = rounded(x, 1.0) - x.format.magic
    r = x - k
    value = fma(fma(polynomial(r, C.EXP2_S if single else C.EXP2), r, LN2), r, 1.0)
    return value * power_of_two(k) if single else scale(value, k)


def expm1_parts(high: Real, low: Real | None, single: bool) -> tuple[Real, Real]:
    """expm1(high + low) as an unevaluated sum, for high < 700."""
    k, r, tail = reduce_exp(high)
    rest = exp_rest(r, single) + (tail if low is None else tail + low)
    power = power_of_two(k)
    base = power - 1.0
    main = fma(power, r, base)
    return main, fma(power, r, base - main) + power * rest


@elementary("expm1")
def expm1(x: Real, single: bool) -> Real:
    clamped = at_least(at_most(x, 710.0), -50.0)
    k, r, tail = reduce_exp(clamped)
    rest = exp_rest(r, single) + tail
    power = power_of_two(k, -1)  # halved, for the last binade before overflow
    base = power - 0.5
    main = fma(power, r, base)
    value = 2.0 * (main + (fma(power, r, base - main) + power * rest))
    return where(fabs(x) < 2.0**-54, x, value)


def split(x: Real, smallest: Real | None = None) -> tuple[Real, Real]:
    """k and m with x = 2**k * m, m in [sqrt(1/2), sqrt(2)), for positive finite x."""
    small = x < 2.0**-1022
    bits = where(small, x * 2.0**54, x).bits() + (ONE_BITS - SQRT_HALF_BITS)
    exponent = ((bits >> 52) | 0x4330000000000000).real()
    m = ((bits & 0xFFFFFFFFFFFFF) + SQRT_HALF_BITS).real()
    return exponent - where(small, 2.0**52 + 1023 + 54, 2.0**52 + 1023, x), m


def log_parts(f: Real, single: bool) -> tuple[Real, Real, Real]:
    """s, half and rest: log(1 + f) = f - (half - rest), half = f*f/2, for 1 + f in [sqrt(1/2), sqrt(2)]."""
    s = f / (f + 2.0)
    z = s * s
    half = (0.5 * f) * f
    return s, half, s * fma(z, polynomial(z, C.LOG_S if single else C.LOG), half)


def log_specials(x: Real, value: Real) -> Real:
    """The logarithm where x is positive and finite; -inf at 0, nan below, inf and nan as they are."""
    elsewhere = where(x < 0.0, math.nan, x)
    elsewhere = where(x.equals(0.0), -math.inf, elsewhere)
    return where((x > 0.0) & (x < math.inf), value, elsewhere)


@elementary("log")
def log(x: Real, single: bool) -> Real:
    k, m = split(x)
    f = m - 1.0
    _, half, rest = log_parts(f, single)
    return log_specials(x, fma(k, LN2_HIGH, f - (half - fma(k, LN2_LOW, rest))))


def log_in_base(x: Real, per_e: float, per_e_tail: float, per_2: float, per_2_tail: float, single: bool) -> Real:
    """log(x) * per_e, where per_2 is log(2) in the base; both constants in two parts, k*per_2 exact."""
    k, m = split(x)
    f = m - 1.0
    _, half, rest = log_parts(f, single)
    high = f - half
    low = (f - high) - half + rest
    scaled = high * per_e
    tail = fma(high, per_e, -scaled) + fma(low, per_e, high * per_e_tail)
    whole = k * per_2
    total = whole + scaled
    return log_specials(x, total + (((whole - total) + scaled) + fma(k, per_2_tail, tail)))


@elementary("log2")
def log2(x: Real, single: bool) -> Real:
    return log_in_base(x, 1.4426950408889634, 2.0355273740931033e-17, 1.0, 0.0, single)


@elementary("log10")
def log10(x: Real, single: bool) -> Real:
    # log10(2) in FDLIBM's split
    return log_in_base(
        x, 0.4342944819032518, 1.098319650216765e-17, 3.01029995663611771306e-01, 3.69423907715893078616e-13, single
    )


def log1p_parts(x: Real, low: Real | None, single: bool) -> tuple[Real, Real, Real]:
    """k, f - correction and f's logarithm: log1p(x + low) = k*LN2_HIGH + value, for finite x > -1."""
    direct = (x > math.sqrt(0.5) - 1) & (x < math.sqrt(2) - 1)
    u = x + 1.0
    back = u - 1.0
    lost = (1.0 - (u - back)) + (x - back)
    k, m = split(u)
    k = where(direct, 0.0, k)
    f = where(direct, x, m - 1.0)
    lost = where(direct, 0.0, lost)
    if low is not None:
        lost = lost + low
    s, half, rest = log_parts(f, single)
    # lost/u = lost * 2**-k * (1 - s)/(1 + s)
    correction = (lost * power_of_two(-at_most(k, 1000.0))) * fma(s, fma(s, fma(s, -2.0, 2.0), -2.0), 1.0)
    return k, f - (half - (fma(k, LN2_LOW, rest) + correction)), f


@elementary("log1p")
def log1p(x: Real, single: bool) -> Real:
    k, value, _ = log1p_parts(x, None, single)
    value = where(fabs(x) < 2.0**-54, x, fma(k, LN2_HIGH, value))
    elsewhere = where(x < -1.0, math.nan, x)
    elsewhere = where(x.equals(-1.0), -math.inf, elsewhere)
    return where((x > -1.0) & (x < math.inf), value, elsewhere)


@elementary("logaddexp", arity=2)
def logaddexp(a: Real, b: Real, single: bool) -> Real:
    """max + log1p(exp(-|a - b|)), as NumPy."""
    larger = where(a > b, a, b)
    gap = at_least(-fabs(a - b), -746.0)
    k, r, _ = reduce_exp(gap)
    e = scale(fma(fma(polynomial(r, C.EXP_S if single else C.EXP), r, 1.0), r, 1.0), k)
    k, value, _ = log1p_parts(e, None, single)
    total = larger + where(e < 2.0**-54, e, fma(k, LN2_HIGH, value))
    return where(a.equals(b), a + LN2, total)


@elementary("expit")
def expit(x: Real, single: bool) -> Real:
    """1/(1 + exp(-x)), as exp(x)/(1 + exp(x)) for negative x, with the sum and the quotient corrected."""
    magnitude = at_least(-fabs(x), -746.0)
    k, r, tail = reduce_exp(magnitude)
    rest = exp_rest(r, single) + tail
    e = 1.0 + (r + rest)
    e_low = ((1.0 - e) + r) + rest
    power = power_of_two(at_least(k, -1022.0))
    denominator = fma(power, e, 1.0)
    lost = fma(power, e, 1.0 - denominator) + power * e_low
    inverse = 1.0 / denominator
    negative = x < 0.0
    top = where(negative, e, 1.0)
    quotient = top * inverse
    error = fma(-quotient, denominator, top) + where(negative, e_low, 0.0) - quotient * lost
    value = fma(error, inverse, quotient)
    return scale(value, where(negative, k, 0.0))
