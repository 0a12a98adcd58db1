"""sqrt, cbrt, hypot and pow."""

from __future__ import annotations

import math

from tracegrad.emit.vecmath import coefficients as C
from tracegrad.emit.vecmath.exp_log import CONSTANTS, LN2, LN2_TAIL, exponent_and_significand, scale, split
from tracegrad.emit.vecmath.registry import elementary
from tracegrad.emit.vecmath.scalar import (
    DOUBLE,
    Real,
    at_least,
    at_most,
    copysign,
    fabs,
    fma,
    polynomial,
    power_of_two,
    rint,
    rounded,
    where,
)
from tracegrad.emit.vecmath.scalar import sqrt as square_root

LOG2E, LOG2E_LOW = 1.4426950408889634, 2.0355273740931033e-17
TWO_THIRDS, TWO_THIRDS_LOW = 0.6666666666666666, 3.700743415417188e-17
CBRT_2, CBRT_HALF = 1.2599210498948732, 0.7937005259840998


@elementary("sqrt", native=True)
def sqrt(x: Real, single: bool) -> Real:
    return square_root(x)


@elementary("cbrt")
def cbrt(x: Real, single: bool) -> Real:
    """y = a**(-1/3) from a polynomial and one step of third order; a*y*y, then a Newton step with an exact residual."""
    a = fabs(x)
    exponent, m = exponent_and_significand(a, CONSTANTS[a.format].one)
    third = rounded(exponent, 1 / 3) - DOUBLE.magic
    remainder = fma(third, -3.0, exponent)  # -1, 0 or 1
    root = where(remainder < 0.0, CBRT_2, where(remainder > 0.0, CBRT_HALF, 1.0, x))
    scaled = m * power_of_two(remainder)
    y = polynomial(m, C.CBRT) * root
    h = fma(scaled * (y * y), -y, 1.0)
    y = fma(y * h, fma(h, 2 / 9, 1 / 3), y)
    square = y * y
    c = scaled * square
    if single:
        return where((a > 0.0) & (a < math.inf), copysign(c * power_of_two(third), x), x)
    c2 = c * c
    c3 = c2 * c
    lost = fma(c2, c, -c3) + fma(c, c, -c2) * c
    c = fma((scaled - c3) - lost, square * (1 / 3), c)
    return where((a > 0.0) & (a < math.inf), copysign(c * power_of_two(third), x), x)


@elementary("hypot", arity=2)
def hypot(x: Real, y: Real, single: bool) -> Real:
    a, b = fabs(x), fabs(y)
    infinite = a.equals(math.inf) | b.equals(math.inf)
    if single:  # no square of a float32 over- or underflows in float64
        return where(infinite, math.inf, square_root(fma(a, a, b * b)))
    first = a > b
    larger, smaller = where(first, a, b), where(first, b, a)
    huge, tiny = larger > 2.0**500, larger < 2.0**-450
    factor = where(huge, 2.0**-600, where(tiny, 2.0**600, 1.0, x))
    back = where(huge, 2.0**600, where(tiny, 2.0**-600, 1.0, x))
    larger, smaller = larger * factor, smaller * factor
    square, other = larger * larger, smaller * smaller
    total = square + other
    lost = ((square - total) + other) + (fma(larger, larger, -square) + fma(smaller, smaller, -other))
    root = square_root(total)
    correction = (fma(-root, root, total) + lost) / (root + root)
    value = where(total > 0.0, root + correction, total) * back
    return where(infinite, math.inf, value)


def log2_parts(x: Real, single: bool) -> tuple[Real, Real]:
    """log2(x) for positive finite x as a sum of two doubles, relative error about 2**-65."""
    k, m = split(x)
    f = m - 1.0
    t = f + 2.0
    inverse = 1.0 / t
    if single:
        s = f * inverse
        return fma(s * fma(s * s, polynomial(s * s, C.LOG_POW_S), 2.0), LOG2E, k), k.like(0.0)
    s = f * inverse
    s_low = (fma(-s, t, f) - s * (f - (t - 2.0))) * inverse
    z = s * s
    z_low = fma(s, s, -z) + (s + s) * s_low
    tail = z * polynomial(z, C.LOG_TAIL_S if single else C.LOG_TAIL)
    p = tail + TWO_THIRDS
    p_low = ((TWO_THIRDS - p) + tail) + TWO_THIRDS_LOW
    cube = s * z
    cube_low = fma(s, z, -cube) + fma(s, z_low, s_low * z)
    term = cube * p
    term_low = fma(cube, p, -term) + fma(cube, p_low, cube_low * p)
    double = s + s
    high = double + term
    low = ((double - high) + term) + (term_low + (s_low + s_low))
    scaled = high * LOG2E
    scaled_low = fma(high, LOG2E, -scaled) + fma(high, LOG2E_LOW, low * LOG2E)
    whole = k + scaled
    whole_low = ((k - whole) + scaled) + scaled_low
    total = whole + whole_low
    return total, (whole - total) + whole_low


@elementary("pow", arity=2)
def pow(x: Real, y: Real, single: bool) -> Real:
    """2**(y*log2|x|), the exponent as a sum of two doubles; C99's special cases (Annex F.10.4.4)."""
    a = fabs(x)
    log_high, log_low = log2_parts(a, single)
    log_high = where(a < math.inf, log_high, a)
    log_high = where(a.equals(0.0), -math.inf, log_high)
    exponent = y * log_high
    inside = fabs(exponent) < 1100.0
    lost = exponent.like(0.0) if single else where(inside, fma(y, log_low, fma(y, log_high, -exponent)), 0.0)
    exponent = at_least(at_most(exponent, 1100.0), -1100.0)
    k = rounded(exponent, 1.0) - DOUBLE.magic
    if single:
        r = exponent - k
        value = fma(fma(polynomial(r, C.EXP2_S), r, LN2), r, 1.0) * power_of_two(at_least(at_most(k, 200.0), -200.0))
        return pow_specials(x, y, a, value)
    r = (exponent - k) + lost
    r_low = ((exponent - k) - r) + lost
    main = r * LN2
    rest = fma(r, LN2, -main) + fma(r, LN2_TAIL, r_low * LN2)
    value = 1.0 + (main + fma(r * r, polynomial(r, C.EXP2_S if single else C.EXP2), rest))
    value = scale(value, at_least(at_most(k, 1024.0), -1076.0))
    value = where(k > 1024.0, math.inf, value)
    return pow_specials(x, y, a, value)


def pow_specials(x: Real, y: Real, a: Real, value: Real) -> Real:
    whole = rint(y).equals(y)
    half = y * 0.5
    odd = whole & ~rint(half).equals(half)
    value = where(odd, copysign(value, x), value)
    value = where((x < 0.0) & (a < math.inf) & ~whole & (fabs(y) < math.inf), math.nan, value)
    one = y.equals(0.0) | x.equals(1.0) | (a.equals(1.0) & fabs(y).equals(math.inf))
    return where(one, 1.0, value)
