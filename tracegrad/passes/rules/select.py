"""Algebra of choices, comparisons and casts."""

from __future__ import annotations

import numpy as np

from tracegrad.ir.graph import Node, Var
from tracegrad.passes.rewrite import Rewriter, Table

TABLE = Table()
row = TABLE.row


@row("replaced", equation="replaced(c, v, x) = where(c, v, x)")
def replaced_is_where(r: Rewriter, node: Node) -> Var | None:
    """They differ in their derivatives only, and those have been taken."""
    return r.emit("where", *node.inputs)


@row("where", equation="where(c, x, x) = x")
def same_either_way(r: Rewriter, node: Node) -> Var | None:
    _, x, y = node.inputs
    return x if x is y else None


@row("where", equation="where(True, x, y) = x, where(False, x, y) = y")
def known_condition(r: Rewriter, node: Node) -> Var | None:
    condition, x, y = node.inputs
    known = r.scalar(condition)
    if known is None:
        return None
    chosen, out = x if known else y, node.output.type
    if chosen.type.dtype != out.dtype or chosen.type.weak:
        chosen = r.emit("cast", chosen, dtype=out.dtype)
    return chosen if chosen.type.shape == out.shape else r.emit("broadcast_to", chosen, shape=out.shape)


@row("where", equation="where(not c, x, y) = where(c, y, x)")
def negated_condition(r: Rewriter, node: Node) -> Var | None:
    condition, x, y = node.inputs
    inner = r.node(condition, "logical_not")
    if inner is None or inner.inputs[0].type.dtype.kind != "b":
        return None
    return r.emit("where", inner.inputs[0], y, x)


@row("where", equation="where(c, where(c, x, y), z) = where(c, x, z), where(c, x, where(c, y, z)) = where(c, x, z)")
def repeated_condition(r: Rewriter, node: Node) -> Var | None:
    condition, *sides = node.inputs
    kept = []
    for position, side in enumerate(sides, 1):
        inner = r.node(side, "where")
        same = inner is not None and inner.inputs[0] is condition
        kept.append(inner.inputs[position] if inner is not None and same else side)
    if kept == sides or any(new.type.dtype != old.type.dtype for new, old in zip(kept, sides, strict=True)):
        return None
    return r.emit("where", condition, *kept)


@row("logical_not", equation="not not c = c for bools")
def double_negation(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "logical_not")
    return None if inner is None else inner.inputs[0]


@row("logical_not", equation="not (x == y) = (x != y), and the reverse")
def negated_equality(r: Rewriter, node: Node) -> Var | None:
    opposite = {"equal": "not_equal", "not_equal": "equal"}
    inner = r.node(node.inputs[0])
    return None if inner is None or inner.name not in opposite else r.emit(opposite[inner.name], *inner.inputs)


@row("logical_and", "logical_or", equation="(c and True) = c, (c and False) = False, the same for or")
def known_operand(r: Rewriter, node: Node) -> Var | None:
    neutral, out = node.name == "logical_and", node.output.type
    for x, y in (node.inputs, node.inputs[::-1]):
        known = r.scalar(y)
        if known is not None and bool(known) == neutral:
            return x
        if known is not None:
            value = r.constant(not neutral, out.dtype)
            return r.emit("broadcast_to", value, shape=out.shape) if out.shape else value
    return None


@row("not_equal", equation="(c != 0) = c for bools")
def bool_is_not_zero(r: Rewriter, node: Node) -> Var | None:
    x, y = node.inputs
    return x if x.type.dtype.kind == "b" and r.number(y) == 0 else None


@row("last_writes", equation="last_writes(v, i, …) = v once derivatives have been taken")
def all_writes(r: Rewriter, node: Node) -> Var | None:
    return node.inputs[0]


@row("cast", equation="cast(x) = x where x has the dtype")
def cast_to_itself(r: Rewriter, node: Node) -> Var | None:
    return node.inputs[0]


@row("cast", equation="cast(cast(x, A), B) = cast(x, B) where A holds every value of x's dtype")
def cast_of_cast(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "cast")
    if inner is None:
        return None
    x = inner.inputs[0]
    source, final = x.type.dtype, node.output.type.dtype
    if not holds_exactly(source, inner.output.type.dtype) or (source.kind == "f" and final.kind in "iu"):
        return None  # out of range an integer depends on the float it is made from
    return x if final == source and not x.type.weak else r.emit("cast", x, dtype=final)


def holds_exactly(source: np.dtype, target: np.dtype) -> bool:
    """Whether every value of `source` is a value of `target`."""
    if source.kind == "b" or source == target:
        return True
    if source.kind in "iu" and target.kind in "fc":
        real = np.empty(0, target).real.dtype
        return 8 * source.itemsize - (source.kind == "i") <= np.finfo(real).nmant + 1
    if source.kind in "fc" or target.kind in "iu":
        return bool(np.can_cast(source, target, "safe"))
    return False
