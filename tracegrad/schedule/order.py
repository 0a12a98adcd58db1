"""The order of a statement's loops: contiguous innermost for most bytes, small constant extents inside all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracegrad.ir.dims import DimLike
from tracegrad.ir.index import Affine, Index
from tracegrad.schedule.loops import Value
from tracegrad.schedule.statements import SMALL, Ref

UNROLLED_TOGETHER = 32  # the product of the small extents of one statement stays below this


def loop_order(
    natural: tuple[str, ...], refs: Sequence[Ref], target: Sequence[Index | Value], extents: Mapping[str, DimLike]
) -> tuple[str, ...]:
    """The loops of a statement, outermost first; `natural` is the order of the axes of what it reads."""
    small = small_loops(natural, extents)
    large = [v for v in natural if v not in small]
    if len(large) > 1:
        inner = _innermost(large, refs, target)
        large = [*(v for v in large if v != inner), inner]
    return (*large, *(v for v in natural if v in small))


def small_loops(natural: Sequence[str], extents: Mapping[str, DimLike]) -> frozenset[str]:
    """The loops that will be unrolled: constant extents up to SMALL, as long as their product is moderate."""
    found, copies = set(), 1
    for v in reversed(natural):
        extent = extents[v]
        if isinstance(extent, int) and extent <= SMALL and copies * extent <= UNROLLED_TOGETHER:
            found.add(v)
            copies *= max(extent, 1)
    return frozenset(found)


def _innermost(large: list[str], refs: Sequence[Ref], target: Sequence[Index | Value]) -> str:
    """The loop that moves most arrays by one element; arrays of lower rank hardly count."""
    scores = {v: 0.01 * position for position, v in enumerate(large)}
    for index in (*(r.index for r in refs), target):
        variables = [name for i in index if (name := _moving(i)) is not None]
        rank = sum(v in scores for v in variables)
        if index and (last := _moving(index[-1])) in scores and last is not None:
            scores[last] += 0.1 ** (len(large) - rank)
    return max(scores, key=scores.__getitem__)


def _moving(index: Index | Value) -> str | None:
    """The variable along which an index advances by one."""
    if not isinstance(index, Affine):
        return None
    return next((name for name, coefficient in index.terms if coefficient == 1), None)
