"""erf and erfc.

erf(x) = -expm1(-x*Q(x)) with a polynomial Q = -log(erfc(x))/x: one formula, without cancellation, from 0 to where erf
is 1. erfc(x) = exp(-x*x) * W(t)/(1 + 2x) for x >= 0 with a polynomial W in t = (x - 4)/(x + 4) (the substitution of
Shepherd and Laframboise, Math. Comp. 36, 1981), x*x carried in two parts; 2 - erfc(-x) below 0.
"""

from __future__ import annotations

from tracegrad.emit.vecmath import coefficients as C
from tracegrad.emit.vecmath.exp_log import exp_parts, expm1_parts, reduce_exp, scale
from tracegrad.emit.vecmath.registry import elementary
from tracegrad.emit.vecmath.scalar import Real, at_most, copysign, fabs, fma, pair, polynomial, power_of_two, where

TWO_OVER_SQRT_PI = 1.1283791670955126
TWO_OVER_SQRT_PI_LOW = 1.533545961316588e-17


@elementary("erf", native=True)
def erf(x: Real, single: bool) -> Real:
    return erf_single(x) if single else erf_double(x)


def erf_single(x: Real) -> Real:
    a = at_most(fabs(x), 4.0)
    c0, c0_low = pair(x, TWO_OVER_SQRT_PI, TWO_OVER_SQRT_PI_LOW)
    slope = a * polynomial(a, C.ERF_S)
    rate = slope + c0
    rate_low = ((c0 - rate) + slope) + c0_low
    decay = -(a * rate)
    high, low = expm1_parts(decay, fma(-a, rate, -decay) - a * rate_low, True)
    return copysign(high + low, x)


def erf_double(x: Real) -> Real:
    a = at_most(fabs(x), 5.95)
    z = a * a
    near = fma(a, polynomial(z, C.ERF_NEAR), a)
    k, r, _ = reduce_exp(-polynomial(a, C.ERF_FAR))
    far = 1.0 - fma(fma(polynomial(r, C.EXP), r, 1.0), r, 1.0) * power_of_two(k)
    return copysign(where(a < 1.0, near, far), x)


@elementary("erfc")
def erfc(x: Real, single: bool) -> Real:
    a = at_most(fabs(x), 27.5)
    first, second = fma(a, 2.0, 1.0), a + 4.0
    inverse = 1.0 / (first * second)
    one_over_first = second * inverse
    u = (a + a) * (first * inverse)  # 1 + t
    t = u - 1.0
    shape = fma(u, polynomial(t, C.ERFC_S if single else C.ERFC), 1.0)
    square = a * a
    k, e, e_low = exp_parts(-square, None if single else -fma(a, a, -square), single)
    top = e * shape
    value = top * one_over_first
    if not single:
        first_low = fma(a, 2.0, 1.0 - first)
        error = fma(-value, first, top) + (fma(e, shape, -top) + e_low * shape - value * first_low)
        value = fma(error, one_over_first, value)
    value = scale(value, k)
    return where(x < 0.0, 2.0 - value, value)
