"""arcsin, arccos, arctan and arctan2, with FDLIBM's reductions (Sun Microsystems, 1993) and one polynomial each."""

from __future__ import annotations

import math

from tracegrad.emit.vecmath import coefficients as C
from tracegrad.emit.vecmath.registry import elementary
from tracegrad.emit.vecmath.scalar import DOUBLE, Real, copysign, fabs, fma, pair, polynomial, sqrt, where

HALF_PI, HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
TAN_PI_8 = 0.41421356237309503


def asin_parts(a: Real, single: bool) -> tuple[Real, Real, Real]:
    """For a = |x|: s, its rounding error and asin(s) - s, where s = a below 1/2 and sqrt((1 - a)/2) above."""
    small = a < 0.5
    half = fma(a, -0.5, 0.5)
    z = where(small, a * a, half)
    root = sqrt(half)
    s = where(small, a, root)
    lost = where(small, 0.0, fma(-root, root, half) / (root + root))
    return s, where(half.equals(0.0), 0.0, lost), (s * z) * polynomial(z, C.ASIN_S if single else C.ASIN)


@elementary("arcsin", native=True)
def arcsin(x: Real, single: bool) -> Real:
    a = fabs(x)
    half_pi, half_pi_low = pair(x, HALF_PI, HALF_PI_LOW)
    s, lost, rest = asin_parts(a, single)
    doubled = s * -2.0
    main = doubled + half_pi
    above = main + ((half_pi - main) + doubled + fma(rest + lost, -2.0, half_pi_low))
    return copysign(where(a < 0.5, s + rest, above), x)


@elementary("arccos", native=True)
def arccos(x: Real, single: bool) -> Real:
    """pi/2 - asin(x) below 1/2, 2*asin(sqrt((1 - x)/2)) above, pi - that of -x below -1/2."""
    a = fabs(x)
    half_pi, half_pi_low = pair(x, HALF_PI, HALF_PI_LOW)
    s, lost, rest = asin_parts(a, single)
    rest = rest + lost
    small, negative = a < 0.5, x < 0.0
    # offset + factor*(s + rest)
    factor = where(small, copysign(x.like(-1.0), -x), where(negative, -2.0, 2.0, x))
    high = where(small, half_pi, where(negative, 2 * half_pi, 0.0, x))
    low = where(small, half_pi_low, where(negative, 2 * half_pi_low, 0.0, x))
    term = s * factor
    main = high + term
    larger, smaller = where(fabs(term) > high, term, high), where(fabs(term) > high, high, term)
    return main + (((larger - main) + smaller) + fma(rest, factor, low))


def atan_of_ratio(top: Real, top_low: Real, bottom: Real, bottom_low: Real, single: bool) -> tuple[Real, Real]:
    """t and atan(t) - t for t = top/bottom, |t| <= tan(pi/8), both carried in two parts."""
    inverse = 1.0 / bottom
    t = top * inverse
    z = t * t
    series = (t * z) * polynomial(z, C.ATAN_S if single else C.ATAN)
    return t, fma(fma(-t, bottom, top) + (top_low - t * bottom_low), inverse, series)


@elementary("arctan", native=True)
def arctan(x: Real, single: bool) -> Real:
    a = fabs(x)
    half_pi, half_pi_low = pair(x, HALF_PI, HALF_PI_LOW)
    large, small = a > 1.0 / TAN_PI_8, a < TAN_PI_8
    below, above = a - 1.0, a + 1.0
    top = where(large, -1.0, where(small, a, below))
    bottom = where(large, a, where(small, 1.0, above))
    outside = large | small
    top_low, bottom_low = where(outside, 0.0, a - (below + 1.0)), where(outside, 0.0, (1.0 - above) + a)
    high = where(large, half_pi, where(small, 0.0, half_pi / 2, x))
    low = where(large, half_pi_low, where(small, 0.0, half_pi_low / 2, x))
    t, rest = atan_of_ratio(top, top_low, bottom, bottom_low, single)
    main = high + t
    value = main + (((high - main) + t) + (rest + low))
    return copysign(where(a < x.format.tiny, a, where(a < 2.0**60, value, where(a > 0.0, half_pi, a))), x)


@elementary("arctan2", arity=2, native=True)
def arctan2(y: Real, x: Real, single: bool) -> Real:
    """atan(min/max) of the magnitudes, moved to the octant; both scaled by a power of two so that nothing overflows."""
    a, b = fabs(y), fabs(x)
    steep = a > b
    larger, smaller = where(steep, a, b), where(steep, b, a)
    half_pi, half_pi_low = pair(x, HALF_PI, HALF_PI_LOW)
    edge, step = (900, 200) if x.format is DOUBLE else (90, 40)
    scale = where(larger > 2.0**edge, 2.0**-step, where(larger < 2.0**-edge, 2.0**step, 1.0, x))
    infinite = larger.equals(math.inf)
    bottom = where(infinite, 1.0, larger * scale)
    top = where(infinite, where(smaller.equals(math.inf), 1.0, 0.0, x), smaller * scale)
    diagonal = top > bottom * TAN_PI_8
    numerator = where(diagonal, top - bottom, top)
    denominator = where(diagonal, top + bottom, bottom)
    denominator = where(denominator.equals(0.0), 1.0, denominator)
    numerator_low = where(diagonal, top - (numerator + bottom), 0.0)
    denominator_low = where(diagonal, (bottom - denominator) + top, 0.0)
    t, rest = atan_of_ratio(numerator, numerator_low, denominator, denominator_low, single)
    # angle = base + sign*(t + rest): pi/4, then pi/2 - angle if steep, then pi - angle if x < 0
    eighth = where(diagonal, 1.0, 0.0, x)
    base = where(steep, 2.0 - eighth, eighth)
    behind = (x.bits() & x.format.sign_mask).is_zero()
    base = where(behind, base, 4.0 - base)
    flip = where(steep, -1.0, 1.0, x) * copysign(x.like(1.0), x)
    high = base * (half_pi / 2)
    low = fma(base, half_pi / 2, -high) + base * (half_pi_low / 2)
    term = t * flip
    main = high + term
    value = main + (((high - main) + term) + fma(rest, flip, low))
    value = where(a.equals(0.0) & b.equals(0.0), where(behind, 0.0, 2 * half_pi, x), value)
    nan = a + b
    return copysign(where((a <= math.inf) & (b <= math.inf), value, nan), y)
