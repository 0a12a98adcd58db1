"""Reductions over nearly the range of another statement run over that range, with a condition.

A function of neighbours is summed over n - 1 elements while its gradient has n: one pass over n does both when the sum
checks the last element. The emitter splits the range, so the inner part has no condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracegrad.ir import lowering
from tracegrad.ir.dims import DimLike
from tracegrad.ir.index import Bound
from tracegrad.schedule.identity import identity
from tracegrad.schedule.live import needed
from tracegrad.schedule.loops import Literal, Where
from tracegrad.schedule.statements import Program, Statement, cast

if TYPE_CHECKING:
    from tracegrad.schedule.build import Builder

REACH = 4  # by how many iterations a loop may grow


def widen(builder: Builder) -> Program:
    """The builder's program after widening the reductions for which it pays."""
    program = builder.program
    spaces = _spaces(program)
    for space in tuple(spaces):
        targets = [t for t in spaces if _covers(t, space)]
        members = [s for s in spaces.get(space, ()) if s.combine and len(s.reduced) == len(s.order) and not s.scatter]
        if not targets or not members:
            continue
        target = min(targets, key=lambda t: str([a - b for a, b in zip(t, space, strict=True)]))
        known = {r.var for s in spaces[target] for r in s.refs}
        replaced = {s: w for s in members if (w := _widened(builder, s, target)) is not None}
        if not all(r.var in known for w in replaced.values() for r in w.refs):
            continue
        former = program.statements
        program.statements = [replaced.get(s, s) if isinstance(s, Statement) else s for s in former]
        program.statements = needed(program)
        widened = _spaces(program)
        if space in widened:
            program.statements = former
        else:
            spaces = widened  # without what only the replaced reductions read
    return program


def _spaces(program: Program) -> dict[tuple[DimLike, ...], list[Statement]]:
    found: dict[tuple[DimLike, ...], list[Statement]] = {}
    for s in program.statements:
        if isinstance(s, Statement) and s.order:
            found.setdefault(_natural(program, s), []).append(s)
    return found


def _natural(program: Program, statement: Statement) -> tuple[DimLike, ...]:
    """The extents of a statement's loops in the order of the axes they were made for."""
    return tuple(program.extents[v] for v in sorted(statement.order, key=_axis))


def _axis(name: str) -> int:
    return int(name.partition(".")[2])


def _covers(target: Sequence[DimLike], space: Sequence[DimLike]) -> bool:
    if len(target) != len(space):
        return False
    steps = [a - b for a, b in zip(target, space, strict=True)]
    return any(d != 0 for d in steps) and all(isinstance(d, int) and 0 <= d <= REACH for d in steps)


def _widened(builder: Builder, statement: Statement, target: Sequence[DimLike]) -> Statement | None:
    """The same reduction over a larger space; None where its operand cannot be written out there."""
    node = builder.definitions.get(statement.var)
    if node is None or len(node.inputs) != 1 or node.inputs[0].type.ndim != len(target):
        return None
    if not isinstance(node.op.lower, lowering.Reduction) or node.op.lower.combine != statement.combine:
        return None  # an argmax is two reductions, of other operands
    (x,) = node.inputs
    index = builder.variables(target)
    when = tuple(
        Bound(i * -1 + (extent - 1))
        for i, extent, wide in zip(index, x.type.shape, target, strict=True)
        if extent != wide
    )
    dtype = statement.expr.dtype
    element = cast(builder.read(x, index), dtype)
    expr = Where(when, element, Literal(identity(statement.combine, dtype), dtype), dtype)
    order = builder.order(index)
    return builder.statement(statement.var, statement.target, expr, order, statement.combine, frozenset(order))
