"""Ctrl-C in compiled loops that may run for long: now and then Python is asked for signals.

A loop that runs until a condition holds asks every so many steps. One that is counted runs in blocks of steps and asks
between two blocks, so that the steps themselves stay as they are; a short one has no blocks.
"""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir

from tracegrad.emit.frame import Frame
from tracegrad.emit.layout import ERROR, STATUS
from tracegrad.emit.llvm import I32, I64, POINTER, VOID, counted_loop, declare, i64, load_word, minimum
from tracegrad.ir.dims import DimLike

EVERY = 1 << 16  # steps between two questions; a power of two
WORK = 1 << 28  # of the units of `cost` between two questions of a counted loop: some 30 ms


def stop_if_interrupted(frame: Frame, count: ir.Value) -> None:
    """End the program after step `count` if a signal handler has raised, as the one of Ctrl-C does."""
    b = frame.builder
    with b.if_then(b.icmp_unsigned("==", b.and_(count, i64(EVERY - 1)), i64(0)), likely=False):
        _ask(frame)


def interruptible_loop(
    frame: Frame, length: DimLike, work: DimLike, unroll: int, step: Callable[[ir.Value], None],
    begin: ir.Value | None = None, end: ir.Value | None = None,
) -> None:  # fmt: skip
    """`for t in range(length)`, or from `begin` to `end` in it: what `step` emits, which costs about `work`."""
    b = frame.builder
    every = min(EVERY, max(1, WORK // max(work, 1))) if isinstance(work, int) else EVERY
    begin = i64(0) if begin is None else begin
    end = frame.sizes.value(length) if end is None else end
    if isinstance(length, int) and length <= every:
        with counted_loop(b, begin, end, name="t", unroll=unroll) as t:
            step(t)
        return
    with counted_loop(b, begin, end, i64(every), name="block") as first:
        last = minimum(b, b.add(first, i64(every)), end)
        with counted_loop(b, first, last, name="t", unroll=unroll) as t:
            step(t)
        with b.if_then(b.icmp_signed("<", last, end), likely=False):
            _ask(frame)


def _ask(frame: Frame) -> None:
    """Threads of the pool, which Python does not know, stop where the thread that called the program has stopped."""
    b, module = frame.builder, frame.builder.module
    known = b.call(declare(module, "PyGILState_GetThisThreadState", POINTER, []), [])
    with b.if_else(b.icmp_unsigned("!=", b.ptrtoint(known, I64), i64(0))) as (asking, others):
        with asking:
            state = b.call(declare(module, "PyGILState_Ensure", I32, []), [])
            raised = b.call(declare(module, "PyErr_CheckSignals", I32, []), [])
            happened = b.icmp_signed("!=", raised, ir.Constant(I32, 0))
            with b.if_then(happened, likely=False):
                b.call(declare(module, "PyErr_Clear", VOID, []), [])
            b.call(declare(module, "PyGILState_Release", VOID, [I32]), [state])
            with b.if_then(happened, likely=False):
                frame.stop(i64(STATUS.interrupt))
        with others:
            shared = load_word(b, frame.error, ERROR.shared, POINTER)
            with b.if_then(b.icmp_unsigned("!=", b.ptrtoint(shared, I64), i64(0))):
                stopped = b.icmp_signed("!=", load_word(b, shared, ERROR.status), i64(STATUS.ok))
                with b.if_then(stopped, likely=False):
                    frame.stop(i64(STATUS.interrupt))
