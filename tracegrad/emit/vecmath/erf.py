"""erf and erfc.

erf(x) = -expm1(-x*Q(x)) with a polynomial Q = -log(erfc(x))/x: one formula, without cancellation, from 0 to where erf
is 1. erfc(x) = exp(-x*x) * W(t)/(1 + 2x) for x >= 0 with a polynomial W in t = (x - 4)/(x + 4) (the substitution of
Shepherd and Laframboise, Math. Comp. 36, 1981), x*x carried in two parts; 2 - erfc(-x) below 0.
"""

from __future__ import annotations

from tracegrad.emit.vecmath import coefficients as C
from tracegrad.emit.vecmath.exp_log import exp_double_double, expm1_parts, scale
from tracegrad.emit.vecmath.registry import elementary
from tracegrad.emit.vecmath.scalar import Real, at_most, copysign, fabs, fma, polynomial, where

TWO_OVER_SQRT_PI_LOW = 1.533545961316588e-17


@elementary("erf")
def erf(x: Real, single: bool) -> Real:
    a = at_most(fabs(x), 5.95)
    table = C.ERF_S if single else C.ERF
    slope = a * polynomial(a, table[1:])
    rate = slope + table[0]
    rate_low = fma(a.like(1.0), (table[0] - rate) + slope, TWO_OVER_SQRT_PI_LOW)
    decay = -(a * rate)
    decay_low = fma(-a, rate, -decay) - a * rate_low
    high, low = expm1_parts(decay, decay_low, single)
    return copysign(high + low, x)


@elementary("erfc")
def erfc(x: Real, single: bool) -> Real:
    a = at_most(fabs(x), 27.5)
    t = (a - 4.0) / (a + 4.0)
    shape = polynomial(t, C.ERFC_S if single else C.ERFC)
    square = a * a
    k, value = exp_double_double(-square, -fma(a, a, -square), single)
    value = scale(value * shape / (a + a + 1.0), k)
    return where(x < 0.0, 2.0 - value, value)
