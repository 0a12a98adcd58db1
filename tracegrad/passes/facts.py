"""What can be proven about the elements of a value: finite, never the negative zero.

The proofs look a few definitions back and no further, so that asking costs a constant time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracegrad.ir.graph import Node, Var
from tracegrad.passes.rewrite import Rewriter

DEPTH = 4

_MOVES = frozenset({"broadcast_to", "reshape", "transpose", "slice", "positive", "stop_gradient", "gather"})
_NOT_NEGATIVE = frozenset({"absolute", "square", "exp", "exp2", "cosh", "erfc", "expit"})

Fact = Callable[[Rewriter, Var, int], bool]


def finite(r: Rewriter, var: Var, depth: int = DEPTH) -> bool:
    """Whether no element can be NaN or infinite."""
    if var.type.dtype.kind in "biu":
        return True
    if var in r.constants:
        return bool(np.all(np.isfinite(r.constants[var])))
    node = r.node(var)
    if node is None or depth == 0:
        return False
    if node.name == "cast":
        return _cast_is_finite(node)
    if node.name in ("negative", "absolute", "concatenate") or node.name in _MOVES:
        return all(finite(r, v, depth - 1) for v in _moved(node))
    if node.name == "unslice":
        return bool(np.isfinite(node.attrs["fill"])) and finite(r, node.inputs[0], depth - 1)
    if node.name == "where":
        return all(finite(r, v, depth - 1) for v in node.inputs[1:])
    return False


def _cast_is_finite(node: Node) -> bool:
    """Integers and bools stay finite in every float that is wide enough for the largest of them."""
    source, target = node.inputs[0].type.dtype, node.output.type.dtype
    return source.kind == "b" or (source.kind in "iu" and (target.itemsize >= 4 or source.itemsize == 1))


def _moved(node: Node) -> tuple[Var, ...]:
    return node.inputs[:1] if node.name == "gather" else node.inputs


def never_negative_zero(r: Rewriter, var: Var, depth: int = DEPTH) -> bool:
    """Whether no element can be -0.0."""
    if var.type.dtype.kind in "biu":
        return True
    if var.type.dtype.kind != "f":
        return False
    if var in r.constants:
        value = np.asarray(r.constants[var])
        return not np.any((value == 0) & np.signbit(value))
    node = r.node(var)
    if node is None or depth == 0:
        return False
    if node.name in _NOT_NEGATIVE or node.name == "sum":  # NumPy's sums start from +0.0
        return True
    if node.name == "cast":
        return node.inputs[0].type.dtype.kind in "biu" or never_negative_zero(r, node.inputs[0], depth - 1)
    if node.name == "add":  # x + y is -0.0 only if both are
        return any(never_negative_zero(r, v, depth - 1) for v in node.inputs)
    if node.name == "subtract":  # x - y is -0.0 only if x is and y is 0.0
        return never_negative_zero(r, node.inputs[0], depth - 1)
    if node.name == "where":
        return all(never_negative_zero(r, v, depth - 1) for v in node.inputs[1:])
    if node.name == "unslice":
        return not np.signbit(node.attrs["fill"]) and never_negative_zero(r, node.inputs[0], depth - 1)
    return node.name in _MOVES and never_negative_zero(r, node.inputs[0], depth - 1)
