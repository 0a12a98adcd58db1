"""Loops: unrolled, strip-mined for sums, and split where bounds change their truth."""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir

from tracegrad.emit.captures import expressions, walk
from tracegrad.emit.cost import interleaving
from tracegrad.emit.frame import Frame
from tracegrad.emit.llvm import counted_loop, i64, maximum, minimum
from tracegrad.emit.splitting import Segment, split
from tracegrad.schedule.loops import Call, Check, Loop, Read, Stmt, Store, Value


def emit_loop(frame: Frame, loop: Loop, body: Callable[[], None], begin: ir.Value, end: ir.Value) -> None:
    """`body` for each value of the loop's variable in [begin, end), a part of its range."""
    if loop.kind == "unroll":
        for k in range(loop.extent):
            with frame.scope():
                frame.variables[loop.var] = i64(k)
                body()
        return
    segments = split(loop, frame.variables) if frame.splitting else []
    if not segments:
        _run(frame, loop, body, begin, end)
    elif not segments[0].lower and not segments[0].upper:
        with frame.scope(segments[0].known):
            _run(frame, loop, body, begin, end)
    else:
        _split(frame, loop, body, begin, end, segments)


def _run(frame: Frame, loop: Loop, body: Callable[[], None], begin: ir.Value, end: ir.Value, few: bool = False) -> None:
    """The loop over one range, in strips at whose ends the sums in it finish a block; without strips if it is of few
    iterations."""
    b = frame.builder
    strip = frame.unit.sums.strips.get(id(loop))
    sums, known = frame.unit.sums, frame.accumulators
    flushed = [known[n] for n in sums.flushes.get(id(loop), ()) if n in known]
    left_open = [known[n] for n in sums.open.get(id(loop), ()) if n in known]
    if strip is None or strip == 1:
        _iterate(frame, loop, body, begin, end, flushed, few)
        return
    if few:
        _iterate(frame, loop, body, begin, end, [], few)
        for accumulator in flushed:
            accumulator.flush()
        return
    with counted_loop(b, begin, end, i64(strip), f"{loop.var}.strip") as first:
        last = minimum(b, b.add(first, i64(strip), flags=("nsw",)), end)
        _iterate(frame, loop, body, first, last, [])
        for accumulator in flushed:
            if accumulator not in left_open:
                accumulator.flush()
        if left_open:
            with b.if_then(b.icmp_signed("<", last, end), likely=False):
                for accumulator in left_open:
                    accumulator.flush()


def _iterate(
    frame: Frame, loop: Loop, body: Callable[[], None], begin: ir.Value, end: ir.Value, flushed: list, few: bool = False
) -> None:
    several = interleaving(loop, frame.unit.buffers)
    with counted_loop(frame.builder, begin, end, name=loop.var, few=few, interleave=several) as index, frame.scope():
        frame.variables[loop.var] = index
        body()
        for accumulator in flushed:
            accumulator.flush()


def _split(
    frame: Frame, loop: Loop, body: Callable[[], None], begin: ir.Value, end: ir.Value, segments: list[Segment]
) -> None:
    """Each segment without the predicates it decides; what lies between them with all of them.

    The gaps run first, as one loop that jumps over the segments, unless the order of iterations can be told apart;
    then each gap gets its own loop in its place.
    """
    b = frame.builder
    cursor = begin
    spans: list[tuple[ir.Value, ir.Value]] = []
    for segment in segments:
        start = cursor
        for point in segment.lower:
            start = maximum(b, start, frame.affine(point))
        stop = end
        for point in segment.upper:
            stop = minimum(b, stop, frame.affine(point))
        start = minimum(b, start, end)
        stop = maximum(b, start, stop)
        spans.append((start, stop))
        cursor = stop
    ordered = ordered_effects(loop.body)
    # Points that do not move with other loops were put together because they are near each other, or near the ends.
    few = not any(point.terms for segment in segments for point in (*segment.lower, *segment.upper))
    if not ordered:
        _gaps(frame, loop, body, begin, end, spans, few)
    cursor = begin
    for segment, (start, stop) in zip(segments, spans):
        if ordered:
            _edge(frame, loop, body, cursor, start, few)
        with frame.scope(segment.known):
            _run(frame, loop, body, start, stop)
        cursor = stop
    if ordered:
        _edge(frame, loop, body, cursor, end, few)


def _gaps(
    frame: Frame, loop: Loop, body: Callable[[], None], begin: ir.Value, end: ir.Value, spans: list, few: bool
) -> None:
    b = frame.builder
    count = b.sub(end, begin)
    for start, stop in spans:
        count = b.sub(count, b.sub(stop, start))

    def shifted() -> None:
        index = b.add(frame.variables[loop.var], begin)
        for start, stop in spans:
            jump = b.select(b.icmp_signed(">=", index, start), b.sub(stop, start), i64(0))
            index = b.add(index, jump)
        frame.variables[loop.var] = index
        body()

    _edge(frame, loop, shifted, i64(0), count, few)


def _edge(frame: Frame, loop: Loop, body: Callable[[], None], begin: ir.Value, end: ir.Value, few: bool) -> None:
    """Iterations with predicates, mostly few; loops inside are not split again, to keep the code small."""
    with frame.scope():
        frame.splitting = False
        _run(frame, loop, body, begin, end, few)


def ordered_effects(body: tuple[Stmt, ...]) -> bool:
    """Whether the order of a loop's iterations may be seen: elements stored at computed places or read where another
    iteration may have stored, checks, calls."""
    stored: dict[str, set[tuple]] = {}
    loaded: dict[str, set[tuple]] = {}
    for statement in walk(body):
        if isinstance(statement, (Check, Call)):
            return True
        if isinstance(statement, Store):
            if any(isinstance(i, Value) for i in statement.index):
                return True
            stored.setdefault(statement.buffer, set()).add(statement.index)
        for expression in expressions(statement):
            if isinstance(expression, Read):
                loaded.setdefault(expression.buffer, set()).add(expression.index)
    return any(loaded.get(name, indices) != indices for name, indices in stored.items())
