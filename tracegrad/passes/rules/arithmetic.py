"""Algebra of elementwise arithmetic, on real numbers.

What is absent is absent for a reason: x + 0 is not x at -0.0, x * 0 is not 0 at infinity, 0 - x is not -x at 0.0,
-(x - y) is not y - x where they are equal, (x * c) * d rounds twice, and with complex numbers even x * 1 is not x where
a part is infinite.
"""

from __future__ import annotations

import math

import numpy as np

from tracegrad.ir.graph import Node, Var
from tracegrad.passes.facts import finite, never_negative_zero
from tracegrad.passes.rewrite import Rewriter, Table

TABLE = Table()
row = TABLE.row


def _real(node: Node) -> bool:
    return node.output.type.dtype.kind in "fiu"


def _other(r: Rewriter, node: Node, number: float) -> Var | None:
    """The operand beside one that is `number` everywhere, in a commutative operation."""
    a, b = node.inputs
    return a if r.number(b) == number else b if r.number(a) == number else None


@row("multiply", equation="x * 1 = x")
def multiply_by_one(r: Rewriter, node: Node) -> Var | None:
    return _other(r, node, 1) if _real(node) else None


@row("divide", equation="x / 1 = x")
def divide_by_one(r: Rewriter, node: Node) -> Var | None:
    return node.inputs[0] if _real(node) and r.number(node.inputs[1]) == 1 else None


@row("multiply", equation="x * -1 = -x")
def multiply_by_minus_one(r: Rewriter, node: Node) -> Var | None:
    other = _other(r, node, -1) if node.output.type.dtype.kind in "fi" else None
    return None if other is None else r.emit("negative", other)


@row("divide", equation="x / -1 = -x")
def divide_by_minus_one(r: Rewriter, node: Node) -> Var | None:
    x, y = node.inputs
    return r.emit("negative", x) if _real(node) and r.number(y) == -1 else None


@row("subtract", equation="x - 0 = x")
def subtract_zero(r: Rewriter, node: Node) -> Var | None:
    x, y = node.inputs
    zero = r.number(y)
    return x if zero == 0 and _real(node) and math.copysign(1, zero) == 1 else None


@row("add", equation="x + 0 = x where x is never -0.0, x + -0.0 = x")
def add_zero(r: Rewriter, node: Node) -> Var | None:
    if not _real(node):
        return None
    for x, y in (node.inputs, node.inputs[::-1]):
        zero = r.number(y)
        if zero == 0 and (math.copysign(1, zero) == -1 or never_negative_zero(r, x)):
            return x
    return None


@row("negative", equation="-(-x) = x")
def negative_of_negative(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "negative")
    return None if inner is None else inner.inputs[0]


def _negated(r: Rewriter, var: Var, node: Node) -> Var | None:
    """What `var` is the negative of, if that holds in the arithmetic of `node` too: not for integers that widen."""
    inner = r.node(var, "negative")
    if inner is None or not (var.type.dtype.kind == "f" or var.type.dtype == node.output.type.dtype):
        return None
    return inner.inputs[0]


@row("subtract", equation="x - (-y) = x + y")
def subtract_negative(r: Rewriter, node: Node) -> Var | None:
    x, y = node.inputs
    negated = _negated(r, y, node)
    return None if negated is None else r.emit("add", x, negated)


@row("add", equation="x + (-y) = x - y, (-x) + y = y - x")
def add_negative(r: Rewriter, node: Node) -> Var | None:
    x, y = node.inputs
    for kept, other in ((x, y), (y, x)):
        negated = _negated(r, other, node)
        if negated is not None:
            return r.emit("subtract", kept, negated)
    return None


@row("multiply", "divide", equation="(-x) * (-y) = x * y, the same for /")
def product_of_negatives(r: Rewriter, node: Node) -> Var | None:
    x, y = (_negated(r, v, node) for v in node.inputs)
    return None if x is None or y is None or not _real(node) else r.emit(node.name, x, y)


@row("multiply", "divide", equation="(-x) * c = x * (-c) for a constant c, the same for /")
def negative_times_constant(r: Rewriter, node: Node) -> Var | None:
    if node.output.type.dtype.kind != "f":
        return None
    for position in (0, 1):
        x = _negated(r, node.inputs[position], node)
        negated = None if x is None else _negative_constant(r, node.inputs[1 - position])
        if x is not None and negated is not None:
            operands = [x, negated]
            return r.emit(node.name, *(operands if position == 0 else operands[::-1]))
    return None


def _negative_constant(r: Rewriter, c: Var) -> Var | None:
    """The constant with the other sign: a float one, or a Python integer but 0, which has no sign to change."""
    if c not in r.constants:
        return None
    if c.type.dtype.kind == "f":
        return r.emit("negative", c)
    number = r.number(c)
    return r.like(c, -number) if c.type.weak and c.type.dtype.kind == "i" and number else None


@row("multiply", equation="(x * 2^k) * c = x * (2^k c) for k >= 0 and |c| >= 1")
def scaled_by_power_of_two(r: Rewriter, node: Node) -> Var | None:
    """Doubling rounds only where it overflows, and there the larger factor overflows too."""
    dtype = node.output.type.dtype
    if dtype.kind != "f":
        return None
    for var, c in (node.inputs, node.inputs[::-1]):
        inner, factor = r.node(var, "multiply"), r.number(c)
        if inner is None or var.type.dtype != dtype or factor is None or not 1 <= abs(factor) < math.inf:
            continue
        for x, power in (inner.inputs, inner.inputs[::-1]):
            scale = r.number(power)
            if scale is not None and 1 <= scale < math.inf and math.frexp(scale)[0] == 0.5 and x.type.dtype == dtype:
                with np.errstate(over="ignore"):
                    both = dtype.type(scale) * dtype.type(factor)
                return r.emit("multiply", x, r.like(x, both)) if np.isfinite(both) else None
    return None


@row("negative", equation="-(x * c) = x * (-c) for a constant c, if x * c is not read elsewhere")
def negative_of_scaled(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "multiply")
    if inner is None or node.output.type.dtype.kind != "f" or not r.read_once(node.inputs[0]):
        return None
    for x, c in (inner.inputs, inner.inputs[::-1]):
        negated = _negative_constant(r, c)
        if negated is not None:
            return r.emit("multiply", x, negated)
    return None


@row("multiply", equation="x * x = square(x)")
def multiply_by_itself(r: Rewriter, node: Node) -> Var | None:
    x, y = node.inputs
    return r.emit("square", x) if x is y else None


@row("power", equation="x ** 2 = square(x), x ** 1 = x")
def small_powers(r: Rewriter, node: Node) -> Var | None:
    x, y = node.inputs
    exponent = r.number(y)
    if not _real(node):
        return None
    return r.emit("square", x) if exponent == 2 else x if exponent == 1 else None


@row("power", equation="x ** c = x ** the Python integer c, for an integer c >= 0 that is the same everywhere")
def known_integer_power(r: Rewriter, node: Node) -> Var | None:
    """An exponent that loops know cannot be negative."""
    x, y = node.inputs
    exponent = r.number(y)
    if y.type.weak or not isinstance(exponent, int) or exponent < 0 or y.type.dtype.kind not in "iu":
        return None
    return r.emit("power", x, r.like(y, exponent)) if x.type.dtype.kind in "iu" and not x.type.weak else None


@row("square", "absolute", equation="square(-x) = square(x), square(|x|) = square(x), |-x| = |x|, ||x|| = |x|")
def sign_does_not_matter(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0])
    if inner is None or inner.name not in ("negative", "absolute") or inner.inputs[0].type.dtype.kind != "f":
        return None
    return r.emit(node.name, inner.inputs[0])


@row("divide", equation="1 / x = reciprocal(x)")
def one_over(r: Rewriter, node: Node) -> Var | None:
    x, y = node.inputs
    return r.emit("reciprocal", y) if r.number(x) == 1 and y.type.dtype.kind == "f" else None


@row("divide", equation="x / 2^k = x * 2^-k where both powers are representable")
def divide_by_power_of_two(r: Rewriter, node: Node) -> Var | None:
    x, y = node.inputs
    divisor, dtype = r.number(y), node.output.type.dtype
    if not divisor or dtype.kind != "f" or x.type.dtype.kind != "f" or not math.isfinite(divisor):
        return None
    if abs(math.frexp(divisor)[0]) != 0.5:
        return None
    with np.errstate(all="ignore"):
        factor = dtype.type(1 / divisor)
        exact = np.isfinite(factor) and abs(factor) >= np.finfo(dtype).tiny and dtype.type(divisor) == divisor
    return r.emit("multiply", x, r.like(x, factor)) if exact and factor * divisor == 1 else None


@row("maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or", equation="max(x, x) = x; min, and, or alike")
def idempotent(r: Rewriter, node: Node) -> Var | None:
    x, y = node.inputs
    return x if x is y else None


@row("positive", "clone", "conjugate", "stop_gradient", equation="+x = x, conj(x) = x for real x; clone, stop_gradient")
def identity(r: Rewriter, node: Node) -> Var | None:
    """Passes run when derivatives have been taken, so nothing has to be stopped any more."""
    x = node.inputs[0]
    return None if node.name == "conjugate" and x.type.dtype.kind == "c" else x


@row("unrecorded", equation="unrecorded(x, v) = v")
def value_of_unrecorded(r: Rewriter, node: Node) -> Var | None:
    """Derivatives have been taken, so what they had to see matters no more."""
    return node.inputs[1]


# zero_multiply(g, p) is g * p, and zero where g is, whatever p is there. The sign of that zero is not promised, not by
# the interpreter nor by compiled programs, so a plain product is as good wherever it cannot be NaN.


@row("zero_multiply", equation="zero_multiply(c, p) = c * p for a constant c without zeros")
def nonzero_cotangent(r: Rewriter, node: Node) -> Var | None:
    g, p = node.inputs
    value = r.constants.get(g)
    if value is None:
        value = r.scalar(g)
    return None if value is None or not np.all(np.asarray(value) != 0) else r.emit("multiply", g, p)


@row("zero_multiply", equation="zero_multiply(0, p) = 0")
def zero_cotangent(r: Rewriter, node: Node) -> Var | None:
    if r.number(node.inputs[0]) != 0:
        return None
    out = node.output.type
    return r.emit("broadcast_to", r.constant(0, out.dtype), shape=out.shape) if out.shape else r.constant(0, out.dtype)


@row("zero_multiply", equation="zero_multiply(g, p) = g * p where p is finite")
def finite_partial(r: Rewriter, node: Node) -> Var | None:
    g, p = node.inputs
    return r.emit("multiply", g, p) if node.output.type.dtype.kind == "f" and finite(r, p) else None
