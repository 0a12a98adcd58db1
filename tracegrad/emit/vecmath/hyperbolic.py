"""Hyperbolic functions and their inverses.

sinh and cosh: with |x| = k*log(2) + r, both are combinations of sinh(r) and cosh(r) with the exact factors
2**(k-1) +- 2**(-k-1); no division, no cancellation. tanh: -expm1(-2|x|)/(2 + expm1(-2|x|)), the quotient corrected.
The inverses are log1p of an argument carried in two parts.
"""

from __future__ import annotations

import math

from tracegrad.emit.vecmath import coefficients as C
from tracegrad.emit.vecmath.exp_log import LN2_HIGH, expm1_parts, log1p_parts, reduce_exp
from tracegrad.emit.vecmath.registry import elementary
from tracegrad.emit.vecmath.scalar import (
    Real,
    at_most,
    copysign,
    fabs,
    fma,
    polynomial,
    power_of_two,
    sqrt,
    where,
)


def sinh_cosh_parts(x: Real, single: bool) -> tuple[Real, Real, Real, Real, Real]:
    """r, sinh(r) - r, cosh(r) - 1, and a quarter of 2**k + 2**-k and of 2**k - 2**-k, for |x| = k*log(2) + r."""
    k, r, tail = reduce_exp(at_most(fabs(x), 710.6))
    z = r * r
    sinh_rest = fma(r * z, polynomial(z, C.SINH_S if single else C.SINH), tail)
    cosh_rest = fma(z, polynomial(z, C.COSH_S if single else C.COSH), r * tail)
    up, down = power_of_two(k, -2), power_of_two(-at_most(k, 1000.0), -2)
    return r, sinh_rest, cosh_rest, up + down, up - down


@elementary("sinh")
def sinh(x: Real, single: bool) -> Real:
    r, sinh_rest, cosh_rest, total, difference = sinh_cosh_parts(x, single)
    main = fma(total, r, difference)
    # one of the two terms dominates: difference = 0 for k = 0, and > total*|r| otherwise
    lost = fma(total, r, difference - main)
    value = (main + (fma(total, sinh_rest, difference * cosh_rest) + lost)) * 2.0
    return where(fabs(x) < 2.0**-28, x, copysign(value, x))


@elementary("cosh")
def cosh(x: Real, single: bool) -> Real:
    r, sinh_rest, cosh_rest, total, difference = sinh_cosh_parts(x, single)
    main = fma(difference, r, total)
    lost = fma(difference, r, total - main)
    return (main + (fma(total, cosh_rest, difference * sinh_rest) + lost)) * 2.0


@elementary("tanh")
def tanh(x: Real, single: bool) -> Real:
    magnitude = at_most(fabs(x), 22.0)
    main, rest = expm1_parts(magnitude * -2.0, None, single)
    high = main + rest
    low = (main - high) + rest
    denominator = high + 2.0
    lost = ((2.0 - denominator) + high) + low
    inverse = 1.0 / denominator
    quotient = high * inverse
    error = fma(-quotient, denominator, high) + (low - quotient * lost)
    return copysign(fma(error, inverse, quotient), x)


@elementary("arcsinh")
def arcsinh(x: Real, single: bool) -> Real:
    """log1p(a + a*a/(1 + sqrt(1 + a*a))), a = |x|; log(2a) for huge a."""
    a = fabs(x)
    huge = a > 2.0**300
    square = a * a
    rest = square / (sqrt(square + 1.0) + 1.0)
    total = a + rest
    high = where(huge, a, total)
    k, value, _ = log1p_parts(high, where(huge, 0.0, (a - total) + rest), single)
    value = fma(k + where(huge, 1.0, 0.0, k), LN2_HIGH, value + where(huge, LN2_REST, 0.0, k))
    return where((a > 2.0**-28) & (a < math.inf), copysign(value, x), x)


LN2_REST = 1.9082149292705878e-10  # log(2) - LN2_HIGH


@elementary("arccosh")
def arccosh(x: Real, single: bool) -> Real:
    """log1p(t + sqrt(2t + t*t)), t = x - 1; log(2x) for huge x."""
    huge = x > 2.0**300
    t = x - 1.0
    double = t + t
    square = fma(t, t, double)
    square_low = fma(t, t, double - square)
    root = sqrt(square)
    root_low = (fma(-root, root, square) + square_low) / (root + root)
    total = root + t
    high = where(huge, x, total)
    low = where(huge | t.equals(0.0), 0.0, ((root - total) + t) + root_low)
    k, value, _ = log1p_parts(high, low, single)
    value = fma(k + where(huge, 1.0, 0.0, k), LN2_HIGH, value + where(huge, LN2_REST, 0.0, k))
    return where(x < math.inf, where(x >= 1.0, value, math.nan), x)


@elementary("arctanh")
def arctanh(x: Real, single: bool) -> Real:
    """log1p(2a/(1 - a))/2, a = |x|, the quotient in two parts."""
    a = fabs(x)
    denominator = 1.0 - a
    lost = (1.0 - denominator) - a
    inverse = 1.0 / denominator
    top = a + a
    high = top * inverse
    low = (fma(-high, denominator, top) - high * lost) * inverse
    k, value, _ = log1p_parts(high, low, single)
    value = copysign(fma(k, LN2_HIGH, value) * 0.5, x)
    value = where(a < 2.0**-28, x, value)
    beyond = where(a.equals(1.0), copysign(x.like(math.inf), x), math.nan)
    return where(a < 1.0, value, where(a >= 1.0, beyond, x))
