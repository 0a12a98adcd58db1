"""ndtri, the quantile function of the standard normal distribution.

Rational approximations in the three ranges of M. Wichura, "Algorithm AS 241: The percentage points of the normal
distribution", Applied Statistics 37 (1988), routine PPND16.
"""

from __future__ import annotations

import math

from tracegrad.emit.vecmath.exp_log import log
from tracegrad.emit.vecmath.registry import elementary
from tracegrad.emit.vecmath.scalar import Real, at_least, fma, sqrt, where

# Highest power first, numerator and denominator; centre in q*q, then in sqrt(-log(p)) - 1.6 and - 5.
CENTRE = (
    (
        2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
        13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608,
    ),
    (
        5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
        5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0,
    ),
)  # fmt: skip
TAIL = (
    (
        7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
        3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734,
    ),
    (
        1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
        0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0,
    ),
)  # fmt: skip
FAR = (
    (
        2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
        0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772,
    ),
    (
        2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
        0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0,
    ),
)  # fmt: skip


@elementary("ndtri")
def ndtri(p: Real, single: bool) -> Real:
    q = p - 0.5
    lower = q < 0.0
    smaller = at_least(where(lower, p, 1.0 - p), 5e-324)
    root = sqrt(-log(smaller, False))
    central = (q < 0.425) & (q > -0.425)
    near, far = root - 1.6, root - 5.0
    use_far = root > 5.0
    argument = where(central, fma(-q, q, 0.180625), where(use_far, far, near))
    value = [
        _horner(argument, [where(central, c, where(use_far, f, t, p)) for c, t, f in zip(*part)])
        for part in zip(CENTRE, TAIL, FAR)
    ]
    quotient = value[0] / value[1]
    result = where(central, q * quotient, where(lower, -quotient, quotient))
    result = where(p.equals(0.0), -math.inf, where(p.equals(1.0), math.inf, result, p), p)
    return where((p >= 0.0) & (p <= 1.0), result, math.nan)


def _horner(x: Real, coefficients: list[Real]) -> Real:
    out = coefficients[0]
    for c in coefficients[1:]:
        out = fma(out, x, c)
    return out
