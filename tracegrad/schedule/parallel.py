"""When a loop may run in parallel, for the verifier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tracegrad.ir.dims import DimLike
from tracegrad.ir.index import Affine, Index
from tracegrad.schedule.loops import Buffer, Call, Declare, Fill, Loop, Read, Store, Update, UpdateAt, Value
from tracegrad.schedule.rewrite import expressions, walk


def parallel_faults(loop: Loop, buffers: Mapping[str, Buffer]) -> Iterator[str]:
    """Why the iterations of a parallel loop would get into each other's way."""
    inside = list(walk(loop.body))
    extents = {s.var: s.extent for s in inside if isinstance(s, Loop)}
    declared = {s.name for s in inside if isinstance(s, Declare)}
    own: dict[str, set[tuple[int, Index]]] = {}  # per shared buffer written here, the iteration's index in all accesses
    for s in inside:
        if isinstance(s, Update) and s.name not in declared and s.name not in loop.reduced:
            yield f"the accumulator {s.name} of all iterations is not in `reduced`"
        if isinstance(s, (Fill, Call)):
            names = (s.buffer,) if isinstance(s, Fill) else s.outputs
            yield from (f"{n} is written as a whole by every iteration" for n in names if _shared(n, buffers))
        if isinstance(s, UpdateAt) and s.buffer in loop.reduced:
            continue
        if isinstance(s, (Store, UpdateAt)) and _shared(s.buffer, buffers):
            if s.buffer in loop.reduced:
                yield f"{s.buffer} is both stored to and reduced"
            axes = _own_axes(s.index, loop.var, extents)
            name = buffers[s.buffer].alias or s.buffer
            own[name] = own.get(name, axes) & axes
    for s in inside:
        for e in expressions(s):
            if not isinstance(e, Read) or e.buffer not in buffers:
                continue
            name = buffers[e.buffer].alias or e.buffer
            if name in own:
                own[name] &= _own_axes(e.index, loop.var, extents)
            elif e.buffer in loop.reduced:
                yield f"{e.buffer} is read while it is being reduced"
    for name, axes in own.items():
        if not axes:
            yield f"iterations of this loop write or read elements of {name} that belong to others"


def _shared(name: str, buffers: Mapping[str, Buffer]) -> bool:
    return name in buffers and buffers[name].role != "local"


def _own_axes(index: tuple[Index | Value, ...], var: str, extents: Mapping[str, DimLike]) -> set[tuple[int, Index]]:
    """The axes along which the index differs between iterations whatever inner loops do, and the index there."""
    return {(a, i) for a, i in enumerate(index) if isinstance(i, Affine) and _separates(i, var, extents)}


def _separates(index: Affine, var: str, extents: Mapping[str, DimLike]) -> bool:
    """Whether the inner loops move the index by less than one step of `var` does."""
    terms = dict(index.terms)
    step = terms.pop(var, 0)
    if not terms:
        return step != 0
    span = 0
    for name, coefficient in terms.items():
        extent = extents.get(name)
        if not isinstance(extent, int) or not isinstance(coefficient, int):
            return False
        span += abs(coefficient) * max(extent - 1, 0)
    return isinstance(step, int) and span < abs(step)
