"""Hyperbolic functions and their inverses.

sinh and cosh: with |x| = k*log(2) + r, both are combinations of sinh(r) and cosh(r) with the exact factors
2**(k-1) +- 2**(-k-1); no division, no cancellation. tanh: -expm1(-2|x|)/(2 + expm1(-2|x|)), the quotient corrected; in
float32, where a polynomial of few terms reaches that far, that up to 1 and 1 - 2/(exp(2|x|) + 1) beyond.
The inverses are log1p of an argument carried in two parts.
"""

from __future__ import annotations

import math

from tracegrad.emit.vecmath import coefficients as C
from tracegrad.emit.vecmath.exp_log import CONSTANTS, LN2, LN2_TAIL, exp_rest, expm1_parts, log1p_parts, reduce_exp
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
    """r, sinh(r) - r, cosh(r) - 1, and a quarter of 2**k and of 2**-k, for |x| = k*log(2) + r."""
    k, r, tail = reduce_exp(at_most(fabs(x), CONSTANTS[x.format].exp_range[1] + 0.6))
    z = r * r
    sinh_rest = fma(r * z, polynomial(z, C.SINH_S if single else C.SINH), tail)
    cosh_rest = fma(z, polynomial(z, C.COSH_S if single else C.COSH), r * tail)
    up, down = power_of_two(k, -2), power_of_two(-at_most(k, x.format.bias - 10.0), -2)
    return r, sinh_rest, cosh_rest, up, down


@elementary("sinh", native=True)
def sinh(x: Real, single: bool) -> Real:
    r, sinh_rest, cosh_rest, up, down = sinh_cosh_parts(x, single)
    total, difference = up + down, up - down
    main = fma(total, r, difference)
    # one of the two terms dominates: difference = 0 for k = 0, and > total*|r| otherwise
    lost = fma(total, r, difference - main) + ((up - difference) - down)
    value = (main + (fma(total, sinh_rest, difference * cosh_rest) + lost)) * 2.0
    return where(fabs(x) < x.format.tiny, x, copysign(value, x))


@elementary("cosh", native=True)
def cosh(x: Real, single: bool) -> Real:
    r, sinh_rest, cosh_rest, up, down = sinh_cosh_parts(x, single)
    total, difference = up + down, up - down
    main = fma(difference, r, total)
    lost = fma(difference, r, total - main) + ((up - total) + down)
    return (main + (fma(total, cosh_rest, difference * sinh_rest) + lost)) * 2.0


@elementary("tanh", native=True)
def tanh(x: Real, single: bool) -> Real:
    if single:
        return _tanh_single(x)
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


def _tanh_single(x: Real) -> Real:
    a = at_most(fabs(x), 10.0)
    z = a * a
    near = fma(a * z, polynomial(z, C.TANH_S), a)
    k, r, _ = reduce_exp(a + a)
    power = power_of_two(k)
    far = 1.0 - 2.0 / fma(power, r + exp_rest(r, single=True), power + 1.0)
    return copysign(where(a < 1.0, near, far), x)


@elementary("arcsinh", native=True)
def arcsinh(x: Real, single: bool) -> Real:
    """log1p(a + a*a/(1 + sqrt(1 + a*a))), a = |x|; log(2a) for huge a."""
    c = CONSTANTS[x.format]
    a = fabs(x)
    huge = a > 2.0 ** (x.format.bias // 3)
    square = a * a
    rest = square / (sqrt(square + 1.0) + 1.0)
    total = a + rest
    high = where(huge, a, total)
    k, value = log1p_parts(high, where(huge, 0.0, (a - total) + rest), single)
    value = fma(k + where(huge, 1.0, 0.0, k), c.ln2_high, value + where(huge, (LN2 - c.ln2_high) + LN2_TAIL, 0.0, k))
    return where((a > x.format.tiny) & (a < math.inf), copysign(value, x), x)


@elementary("arccosh", native=True)
def arccosh(x: Real, single: bool) -> Real:
    """log1p(t + sqrt(2t + t*t)), t = x - 1; log(2x) for huge x."""
    c = CONSTANTS[x.format]
    huge = x > 2.0 ** (x.format.bias // 3)
    t = x - 1.0
    double = t + t
    square = fma(t, t, double)
    square_low = fma(t, t, double - square)
    root = sqrt(square)
    root_low = (fma(-root, root, square) + square_low) / (root + root)
    total = root + t
    high = where(huge, x, total)
    low = where(huge | t.equals(0.0), 0.0, ((root - total) + t) + root_low)
    k, value = log1p_parts(high, low, single)
    value = fma(k + where(huge, 1.0, 0.0, k), c.ln2_high, value + where(huge, (LN2 - c.ln2_high) + LN2_TAIL, 0.0, k))
    return where(x < math.inf, where(x >= 1.0, value, math.nan), x)


@elementary("arctanh", native=True)
def arctanh(x: Real, single: bool) -> Real:
    """log1p(2a/(1 - a))/2, a = |x|, the quotient in two parts."""
    c = CONSTANTS[x.format]
    a = fabs(x)
    denominator = 1.0 - a
    lost = (1.0 - denominator) - a
    inverse = 1.0 / denominator
    top = a + a
    high = top * inverse
    low = (fma(-high, denominator, top) - high * lost) * inverse
    k, value = log1p_parts(high, low, single)
    value = copysign(fma(k, c.ln2_high, value) * 0.5, x)
    value = where(a < x.format.tiny, x, value)
    beyond = where(a.equals(1.0), copysign(x.like(math.inf), x), math.nan)
    return where(a < 1.0, value, where(a >= 1.0, beyond, x))
