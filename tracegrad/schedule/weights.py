"""How much scalar operations cost, in units of one multiplication; only their order of magnitude matters."""

from __future__ import annotations

from tracegrad.schedule.loops import Apply, Cast, Where

INLINE_LIMIT = 48  # a producer read at shifted indices is computed again if that costs at most this
STORE = 2  # writing a value to a row buffer
LOAD = 1
STREAM = 6  # writing a value to an array that leaves the cache and reading it back

_HEAVY = {
    "divide": 4, "true_divide": 4, "floor_divide": 8, "remainder": 8, "fmod": 8, "mod": 8, "sqrt": 4, "reciprocal": 4, "rsqrt": 6,
    "power": 24, "float_power": 24, "add": 1, "subtract": 1, "multiply": 1, "negative": 1, "absolute": 1, "abs": 1, "square": 1,
    "where": 1, "maximum": 1, "minimum": 1, "equal": 1, "not_equal": 1, "less": 1, "less_equal": 1, "greater": 1, "greater_equal": 1,
    "logical_and": 1, "logical_or": 1, "logical_not": 1, "sign": 1, "isnan": 1, "isfinite": 1, "isinf": 1, "bitwise_and": 1,
    "bitwise_or": 1, "bitwise_xor": 1, "invert": 1, "left_shift": 1, "right_shift": 1, "floor": 1, "ceil": 1, "rint": 1, "trunc": 1,
    "copysign": 1, "zero_multiply": 2, "replaced": 1, "clip": 2, "logical_xor": 1, "fmax": 2, "fmin": 2, "heaviside": 2,
    "positive": 0, "conjugate": 0, "real": 0, "signbit": 1,
}  # fmt: skip
_TRANSCENDENTAL = 14


def weight_of(op: str) -> int:
    """The cost of one application of a scalar operation; unknown ones count as transcendental."""
    return _HEAVY.get(op, _TRANSCENDENTAL)


def expression_weight(expr: object) -> int:
    """The cost of a scalar expression, without its loads."""
    if isinstance(expr, Apply):
        return weight_of(expr.op) + sum(expression_weight(a) for a in expr.args)
    if isinstance(expr, Cast):
        return 1 + expression_weight(expr.arg)
    if isinstance(expr, Where):
        return 1 + expression_weight(expr.inside) + expression_weight(expr.outside)
    return 0
