"""How much scalar operations cost, in units of one multiplication; only their order of magnitude matters."""

from __future__ import annotations

from tracegrad.schedule.loops import Apply, Cast, Where

INLINE_LIMIT = 48  # a producer read at shifted indices is computed again if that costs at most this
REPEATED_LIMIT = 64  # and if all its readers together compute at most this
LEAVES_LIMIT = 32  # an element chosen among others is written out if it reads at most this many,
LEAVES_OF_PIECE = 8  # and this many for each of those
DEPTH_LIMIT = 64  # so many nodes, one behind the other, are written out in one statement
STORE = 2  # writing a value to a row buffer
LOAD = 1
STREAM = 6  # writing a value to an array that leaves the cache and reading it back

_WEIGHTS = {
    **dict.fromkeys(("positive", "conjugate", "real"), 0),
    **dict.fromkeys(
        (
            "add", "subtract", "multiply", "negative", "absolute", "square", "where", "replaced", "maximum",
            "minimum", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
            "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "invert",
            "left_shift", "right_shift", "sign", "isnan", "isfinite", "isinf", "signbit", "floor", "ceil", "rint",
            "trunc", "copysign",
        ),
        1,
    ),
    **dict.fromkeys(("zero_multiply", "clip", "fmax", "fmin", "heaviside"), 2),
    **dict.fromkeys(("divide", "sqrt", "reciprocal"), 4),
    **dict.fromkeys(("floor_divide", "remainder", "fmod"), 8),
    "power": 40,
    "random_bits": 60,
}  # fmt: skip
_TRANSCENDENTAL = 14


def weight_of(op: str) -> int:
    """The cost of one application of a scalar operation; unknown ones count as transcendental."""
    return _WEIGHTS.get(op, _TRANSCENDENTAL)


def most_leaves(pieces: int) -> int:
    """How many elements an expression that chooses among so many pieces may read."""
    return LEAVES_LIMIT + LEAVES_OF_PIECE * pieces


def expression_weight(expr: object) -> int:
    """The cost of a scalar expression, without its loads."""
    if isinstance(expr, Apply):
        return weight_of(expr.op) + sum(expression_weight(a) for a in expr.args)
    if isinstance(expr, Cast):
        return 1 + expression_weight(expr.arg)
    if isinstance(expr, Where):
        return 1 + expression_weight(expr.inside) + expression_weight(expr.outside)
    return 0
