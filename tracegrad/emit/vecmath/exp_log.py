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
from tracegrad.emit.vecmath.scalar import (
    DOUBLE,
    SINGLE,
    Real,
    at_least,
    at_most,
    fabs,
    fma,
    pair,
    polynomial,
    power_of_two,
    rounded,
    where,
)
from tracegrad.records import record

LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_TAIL = 2.3190468138462996e-17  # log(2) - LN2


@record
class Constants:
    """What differs between the formats: log(2) in two parts with k*ln2_high exact, ranges, bit patterns."""

    ln2_high: float
    ln2_low: float
    exp_range: tuple[float, float]  # beyond, exp is 0 or infinite
    exp2_range: tuple[float, float]
    subnormal_from: float  # below this k, results are scaled in two steps of which the second is 2**-shift
    shift: int
    one: int
    sqrt_half: int


# FDLIBM's split for float64; 355/512 for float32
CONSTANTS = {
    DOUBLE: Constants(
        6.93147180369123816490e-01,
        1.90821492927058770002e-10,
        (-746.0, 710.0),
        (-1076.0, 1024.0),
        -1000.0,
        100,
        0x3FF0000000000000,
        0x3FE6A09E667F3BCD,
    ),
    SINGLE: Constants(
        0.693359375, -2.12194440054690583e-4, (-104.5, 89.0), (-151.0, 128.0), -110.0, 40, 0x3F800000, 0x3F3504F3
    ),
}


def reduce_exp(x: Real) -> tuple[Real, Real, Real]:
    """k, r and the part of r that rounding took: x = k*log(2) + r + tail. For |x| < 2**20 (2**13 in float32)."""
    c = CONSTANTS[x.format]
    k = rounded(x, LOG2E) - x.format.magic
    first = fma(k, -c.ln2_high, x)
    r = fma(k, -c.ln2_low, first)
    return k, r, fma(k, -c.ln2_low, first - r)


def exp_rest(r: Real, single: bool) -> Real:
    """exp(r) - 1 - r for |r| <= log(2)/2."""
    return (r * r) * polynomial(r, C.EXP_S if single else C.EXP)


def scale(value: Real, k: Real) -> Real:
    """value * 2**k for value near 1 and k in the range of exp2, rounded once also where the result is subnormal."""
    c, form = CONSTANTS[k.format], k.format
    low = k < c.subnormal_from
    biased = k + where(low, form.magic + form.bias + c.shift, form.magic + form.bias - 1, k)
    return value * (biased.bits() << form.mantissa).real() * where(low, 2.0**-c.shift, 2.0, k)


def clamped(x: Real, limits: tuple[float, float]) -> Real:
    return at_least(at_most(x, limits[1]), limits[0])


def exp_parts(high: Real, low: Real | None, single: bool) -> tuple[Real, Real, Real]:
    """k, e and e_low with exp(high + low) = 2**k * (e + e_low), for high in exp's range and |low| < 2**-20."""
    k, r, tail = reduce_exp(high)
    if low is not None:
        tail = tail + low
    rest = exp_rest(r, single)
    rest = rest + fma(tail, r + rest, tail)
    main = r + rest
    e = 1.0 + main
    return k, e, ((1.0 - e) + main) + ((r - main) + rest)


def exp_in_range(x: Real, single: bool) -> Real:
    k, r, _ = reduce_exp(x)
    return scale(fma(fma(polynomial(r, C.EXP_S if single else C.EXP), r, 1.0), r, 1.0), k)


@elementary("exp", native=True)
def exp(x: Real, single: bool) -> Real:
    return exp_in_range(clamped(x, CONSTANTS[x.format].exp_range), single)


@elementary("exp2", native=True)
def exp2(x: Real, single: bool) -> Real:
    x = clamped(x, CONSTANTS[x.format].exp2_range)
    k = rounded(x, 1.0) - x.format.magic
    r = x - k
    high, low = pair(x, LN2, LN2_TAIL)
    slope = fma(polynomial(r, C.EXP2_S if single else C.EXP2), r, high)
    return scale(fma(slope, r, fma(r, low, 1.0)) if single else fma(slope, r, 1.0), k)


def expm1_parts(high: Real, low: Real | None, single: bool) -> tuple[Real, Real]:
    """expm1(high + low) as a sum of which neither part is small, for high <= 0."""
    k, r, tail = reduce_exp(high)
    rest = exp_rest(r, single) + (tail if low is None else tail + low)
    power = power_of_two(k)
    base = power - 1.0
    base_lost = (-1.0 - base) + power
    main = fma(power, r, base)
    return main, fma(power, rest, fma(power, r, base - main) + base_lost)


@elementary("expm1", native=True)
def expm1(x: Real, single: bool) -> Real:
    k, r, tail = reduce_exp(clamped(x, (-50.0, CONSTANTS[x.format].exp_range[1])))
    rest = exp_rest(r, single) + tail
    power = power_of_two(k, -1)  # halved, for the last binade before overflow
    base = power - 0.5
    base_lost = where(power > 0.5, (power - base) - 0.5, (-0.5 - base) + power)
    main = fma(power, r, base)
    value = 2.0 * (main + fma(power, rest, fma(power, r, base - main) + base_lost))
    return where(fabs(x) < 2.0 ** -(x.format.mantissa + 2), x, value)


def exponent_and_significand(x: Real, start: int) -> tuple[Real, Real]:
    """k and m with x = 2**k * m for positive finite x; m runs over the binade that begins at bit pattern `start`."""
    form, one = x.format, CONSTANTS[x.format].one
    small = x < 2.0 ** (1 - form.bias)
    up = form.mantissa + 2  # brings subnormal numbers into the normal range
    bits = where(small, x * 2.0**up, x).bits() + (one - start)
    # an integer e below 2**mantissa, placed in the low bits of 2**mantissa, is 2**mantissa + e
    unit = 2.0**form.mantissa
    exponent = ((bits >> form.mantissa) | ((form.bias + form.mantissa) << form.mantissa)).real()
    m = ((bits & ((1 << form.mantissa) - 1)) + start).real()
    return exponent - where(small, unit + form.bias + up, unit + form.bias, x), m


def split(x: Real) -> tuple[Real, Real]:
    """k and m with x = 2**k * m, m in [sqrt(1/2), sqrt(2)), for positive finite x."""
    return exponent_and_significand(x, CONSTANTS[x.format].sqrt_half)


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


@elementary("log", native=True)
def log(x: Real, single: bool) -> Real:
    c = CONSTANTS[x.format]
    k, m = split(x)
    f = m - 1.0
    _, half, rest = log_parts(f, single)
    return log_specials(x, fma(k, c.ln2_high, f - (half - fma(k, c.ln2_low, rest))))


def log_in_base(x: Real, per_e: tuple[float, float], per_2: tuple[float, float], single: bool) -> Real:
    """log(x) * per_e, where per_2 is log(2) in the base; both constants in two parts, k*per_2[0] exact."""
    k, m = split(x)
    f = m - 1.0
    _, half, rest = log_parts(f, single)
    high = f - half
    low = (f - high) - half + rest
    scaled = high * per_e[0]
    tail = fma(high, per_e[0], -scaled) + fma(low, per_e[0], high * per_e[1])
    whole = k * per_2[0]
    total = whole + scaled
    return log_specials(x, total + (((whole - total) + scaled) + fma(k, per_2[1], tail)))


@elementary("log2", native=True)
def log2(x: Real, single: bool) -> Real:
    return log_in_base(x, pair(x, 1.4426950408889634, 2.0355273740931033e-17), (1.0, 0.0), single)


@elementary("log10", native=True)
def log10(x: Real, single: bool) -> Real:
    # log10(2) in FDLIBM's split; 1233/4096 in float32
    per_2 = (
        (0.301025390625, 4.605038981195214e-06) if single else (3.01029995663611771306e-01, 3.69423907715893078616e-13)
    )
    return log_in_base(x, pair(x, 0.4342944819032518, 1.098319650216765e-17), per_2, single)


def log1p_parts(x: Real, low: Real | None, single: bool) -> tuple[Real, Real]:
    """k and v with log1p(x + low) = k*ln2_high + v, for finite x > -1."""
    c = CONSTANTS[x.format]
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
    correction = (lost * power_of_two(-at_most(k, x.format.bias - 10.0))) * fma(s, fma(s, fma(s, -2.0, 2.0), -2.0), 1.0)
    return k, f - (half - (fma(k, c.ln2_low, rest) + correction))


@elementary("log1p", native=True)
def log1p(x: Real, single: bool) -> Real:
    k, value = log1p_parts(x, None, single)
    value = where(fabs(x) < 2.0 ** -(x.format.mantissa + 2), x, fma(k, CONSTANTS[x.format].ln2_high, value))
    elsewhere = where(x < -1.0, math.nan, x)
    elsewhere = where(x.equals(-1.0), -math.inf, elsewhere)
    return where((x > -1.0) & (x < math.inf), value, elsewhere)


@elementary("logaddexp", arity=2, native=True)
def logaddexp(a: Real, b: Real, single: bool) -> Real:
    """max + log1p(exp(-|a - b|)), as NumPy."""
    c = CONSTANTS[a.format]
    larger = where(a > b, a, b)
    e = exp_in_range(at_least(-fabs(a - b), c.exp_range[0]), single)
    s = e / (e + 2.0)  # at most 1/3: one series for all of log1p's range, and no cancellation
    z = s * s
    half = (0.5 * e) * e
    value = e - (half - s * fma(z, polynomial(z, C.LOG_WIDE_S if single else C.LOG_WIDE), half))
    return where(a.equals(b), a + LN2, larger + value)


@elementary("expit", native=True)
def expit(x: Real, single: bool) -> Real:
    """1/(1 + exp(-x)), as exp(x)/(1 + exp(x)) for negative x, with the sum and the quotient corrected."""
    c = CONSTANTS[x.format]
    magnitude = at_least(-fabs(x), c.exp_range[0])
    k, r, tail = reduce_exp(magnitude)
    rest = exp_rest(r, single) + tail
    e = 1.0 + (r + rest)
    e_low = ((1.0 - e) + r) + rest
    power = power_of_two(at_least(k, 1.0 - x.format.bias))
    denominator = fma(power, e, 1.0)
    lost = fma(power, e, 1.0 - denominator) + power * e_low
    inverse = 1.0 / denominator
    negative = x < 0.0
    top = where(negative, e, 1.0)
    quotient = top * inverse
    error = fma(-quotient, denominator, top) + where(negative, e_low, 0.0) - quotient * lost
    value = fma(error, inverse, quotient)
    return scale(value, where(negative, k, 0.0))
