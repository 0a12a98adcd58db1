"""Index-set splitting: which parts of a loop's range need no bounds checks.

A Bound that is affine in the loop variable with coefficient ±1 changes its truth at one *breakpoint*. Between
breakpoints the body runs with the truth known, hence without a predicate, and vectorises; what lies between two
breakpoints close to each other (the edges of a stencil, of a pad) runs a copy of the body with its predicates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from tracegrad.emit.captures import expressions, walk
from tracegrad.ir.dims import DimLike
from tracegrad.ir.index import Affine, Bound
from tracegrad.records import record
from tracegrad.schedule.loops import Loop, Read, Stmt, Where

NEAR = 8  # breakpoints this close together are one edge
SMALL = 16  # a loop this short is left to LLVM, which unrolls it and folds its conditions
MAX_SEGMENTS = 4


@record
class Breakpoint:
    """A loop index at which a bound changes: its truth below `at` and from `at` on (None: not known from here)."""

    bound: Bound
    at: Affine
    below: bool | None
    above: bool | None


@record
class Segment:
    """The part of a range from the largest of `lower` to the smallest of `upper`, with the truth of some bounds."""

    lower: tuple[Affine, ...]
    upper: tuple[Affine, ...]
    known: dict[Bound, bool]


def decide(bound: Bound, variable: str, extent: DimLike) -> bool | None:
    """The truth of a bound on `variable` in [0, extent) alone, where it is the same all over; None elsewhere."""
    for point in _breakpoints(bound, variable):
        if point.at.terms:
            continue
        at = point.at.offset
        if point.above is not None and isinstance(at, int) and at <= 0:
            return point.above
        beyond = at - extent
        if point.below is not None and isinstance(beyond, int) and beyond >= 0:
            return point.below
    return None


def split(loop: Loop, outer: Collection[str]) -> list[Segment]:
    """The segments of `loop`, whose body may depend on the `outer` variables too; none if splitting gains nothing."""
    if loop.kind == "unroll" or (isinstance(loop.extent, int) and loop.extent <= SMALL):
        return []
    always: dict[Bound, bool] = {}
    points: list[Breakpoint] = []
    for bound in dict.fromkeys(bounds_in(loop.body)):
        truth = decide(bound, loop.var, loop.extent)
        if truth is not None:
            always[bound] = truth
            continue
        found = _breakpoints(bound, loop.var)
        if all(name in outer for point in found for name, _ in point.at.terms):
            points.extend(found)
    if not points:
        return [Segment((), (), always)] if always else []
    low, middle, high = _groups(points, loop.extent)
    if middle is None or len(middle) + 1 > MAX_SEGMENTS:
        return []
    return list(_segments(low, middle, high, always))


def bounds_in(body: Sequence[Stmt]) -> Iterator[Bound]:
    """Every Bound in the expressions of `body`, loops included."""
    for statement in walk(body):
        for expression in expressions(statement):
            if isinstance(expression, (Read, Where)):
                yield from expression.when


def _breakpoints(bound: Bound, variable: str) -> tuple[Breakpoint, ...]:
    """Where `coefficient * variable + rest` changes sign, or is zero. Coefficients other than ±1 are not looked at."""
    coefficient = dict(bound.affine.terms).get(variable)
    rest = Affine(tuple(t for t in bound.affine.terms if t[0] != variable), bound.affine.offset)
    if coefficient not in (1, -1) or bound.relation == "%":
        return ()
    root = rest * -1 if coefficient == 1 else rest
    if bound.relation == "==":
        return Breakpoint(bound, root, False, None), Breakpoint(bound, root + 1, None, False)
    return (Breakpoint(bound, root, False, True) if coefficient == 1 else Breakpoint(bound, root + 1, True, False),)


Group: TypeAlias = "list[Breakpoint]"


def _groups(points: Sequence[Breakpoint], extent: DimLike) -> tuple[Group, list[Group] | None, Group]:
    """Breakpoints near the start, groups of near ones in between in ascending order, and those near the end.

    The middle is None where no order is apparent. Only speed depends on the order: `_segments` is right for any.
    """
    low: Group = []
    high: Group = []
    middle: list[Group] = []
    for point in points:
        at = point.at.offset
        if point.at.terms and point.bound.relation == ">=":  # moves with an outer loop: look where all of them hold
            (low if point.above else high).append(point)
        elif not point.at.terms and isinstance(at, int) and at <= NEAR:
            low.append(point)
        elif not point.at.terms and isinstance(extent - at, int) and extent - at <= NEAR:
            high.append(point)
        else:
            _place(middle, point)
    ordered: list[Group] = []
    for group in middle:
        position = len(ordered)
        while position and _below(group[0].at, ordered[position - 1][0].at):
            position -= 1
        if position and not _below(ordered[position - 1][0].at, group[0].at):
            return low, None, high
        ordered.insert(position, group)
    return low, ordered, high


def _place(groups: list[Group], point: Breakpoint) -> None:
    for group in groups:
        distance = group[0].at - point.at
        if not distance.terms and isinstance(distance.offset, int) and abs(distance.offset) <= NEAR:
            group.append(point)
            return
    groups.append([point])


def _below(a: Affine, b: Affine) -> bool:
    """Whether a < b is apparent, sizes being positive."""
    difference = b - a
    if difference.terms:
        return False
    if isinstance(difference.offset, int):
        return difference.offset > 0
    return all(coefficient > 0 for _, coefficient in difference.offset.terms)


def _segments(low: Group, middle: list[Group], high: Group, always: dict[Bound, bool]) -> Iterator[Segment]:
    """One segment between each two neighbouring groups; the ends beyond `low` and `high` are edges, not segments."""
    groups = [low, *middle, high]
    for k in range(1, len(groups)):
        left = [p for group in groups[:k] for p in group]
        right = [p for group in groups[k:] for p in group]
        known = dict(always)
        known.update({p.bound: p.above for p in left if p.above is not None})
        known.update({p.bound: p.below for p in right if p.below is not None})
        yield Segment(tuple(dict.fromkeys(p.at for p in left)), tuple(dict.fromkeys(p.at for p in right)), known)
