"""sin, cos and tan.

The argument is reduced to r + tail in [-pi/4, pi/4] by a three-part pi/2 (Cody and Waite) for |x| <= 2**30. Beyond,
a call of an internal function does the reduction of Payne and Hanek in 192-bit integers; huge.py says how a loop
with that call still vectorises.
"""

from __future__ import annotations

from tracegrad.emit.vecmath import coefficients as C
from tracegrad.emit.vecmath.huge import LARGEST, reduced_huge
from tracegrad.emit.vecmath.registry import elementary
from tracegrad.emit.vecmath.scalar import Bits, Real, fabs, fma, polynomial, rounded, where

TWO_OVER_PI = 0.6366197723675814
# pi/2 in three parts of 53 bits
PIO2_1 = 1.5707963267948966
PIO2_2 = 6.123233995736766e-17
PIO2_3 = -1.4973849048591698e-33


def reduce(x: Real, single: bool) -> tuple[Bits, Real, Real]:
    """The quadrant (its two low bits count), r and tail: x = quadrant*pi/2 + r + tail."""
    nearest = rounded(x, TWO_OVER_PI)
    quadrant = nearest.bits()
    n = nearest - x.format.magic
    first = fma(n, -PIO2_1, x)  # exact
    if single:
        r = fma(n, -PIO2_2, first)
        tail = r.like(0.0)
    else:
        product = n * PIO2_2
        r = first - product
        tail = ((first - r) - product) - fma(n, PIO2_3, fma(n, PIO2_2, -product))
    beyond = fabs(x) > LARGEST
    far_quadrant, far = reduced_huge(x)
    quadrant = Bits(x.builder, x.builder.select(beyond.value, far_quadrant.value, quadrant.value))
    return quadrant, where(beyond, far, r), tail if single else where(beyond, 0.0, tail)


def sin_cos(r: Real, tail: Real, single: bool) -> tuple[Real, Real, Real, Real]:
    """sin and cos of r + tail, each as a leading term and a correction."""
    z = r * r
    sine, cosine = polynomial(z, C.SIN_S if single else C.SIN), polynomial(z, C.COS_S if single else C.COS)
    half = 0.5 * z
    w = 1.0 - half
    if single:
        return r, (z * r) * sine, w, (z * z) * cosine
    return r, fma(z * r, sine, tail * w), w, ((1.0 - w) - half) + fma(z * z, cosine, -(r * tail))


def odd(quadrant: Bits) -> Bits:
    return quadrant & 1


def negated_if(quadrant: Bits, value: Real) -> Real:
    """-value in quadrants 2 and 3."""
    return (value.bits() ^ ((quadrant & 2) << 62)).real()


@elementary("sin")
def sin(x: Real, single: bool) -> Real:
    quadrant, r, tail = reduce(x, single)
    s, s_low, c, c_low = sin_cos(r, tail, single)
    value = negated_if(quadrant, where(odd(quadrant).is_zero(), s + s_low, c + c_low))
    return where(fabs(x) < 2.0**-27, x, value)  # keeps -0.0


@elementary("cos")
def cos(x: Real, single: bool) -> Real:
    quadrant, r, tail = reduce(x, single)
    s, s_low, c, c_low = sin_cos(r, tail, single)
    return negated_if(quadrant + 1, where(odd(quadrant).is_zero(), c + c_low, s + s_low))


@elementary("tan")
def tan(x: Real, single: bool) -> Real:
    quadrant, r, tail = reduce(x, single)
    s, s_low, c, c_low = sin_cos(r, tail, single)
    even = odd(quadrant).is_zero()
    sine, cosine = s + s_low, c + c_low
    top, bottom = where(even, sine, cosine), where(even, cosine, sine)
    inverse = 1.0 / bottom
    value = top * inverse
    if not single:
        sine_lost, cosine_lost = (s - sine) + s_low, (c - cosine) + c_low
        top_lost, bottom_lost = where(even, sine_lost, cosine_lost), where(even, cosine_lost, sine_lost)
        value = fma(fma(-value, bottom, top) + (top_lost - value * bottom_lost), inverse, value)
    value = (value.bits() ^ (quadrant << 63)).real()  # -cot in odd quadrants
    return where(fabs(x) < 2.0**-27, x, value)
