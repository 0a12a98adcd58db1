"""Ctrl-C in a compiled loop that may run for ever: every so many steps Python is asked for signals."""

from __future__ import annotations

import llvmlite.ir as ir

from tracegrad.emit.frame import Frame
from tracegrad.emit.layout import STATUS
from tracegrad.emit.llvm import I32, VOID, declare, i64

EVERY = 1 << 16  # steps between two questions; a power of two


def stop_if_interrupted(frame: Frame, count: ir.Value) -> None:
    """End the program after step `count` if a signal handler has raised, as the one of Ctrl-C does."""
    b, module = frame.builder, frame.builder.module
    due = b.icmp_unsigned("==", b.and_(count, i64(EVERY - 1)), i64(0))
    with b.if_then(due, likely=False):
        state = b.call(declare(module, "PyGILState_Ensure", I32, []), [])
        raised = b.call(declare(module, "PyErr_CheckSignals", I32, []), [])
        happened = b.icmp_signed("!=", raised, ir.Constant(I32, 0))
        with b.if_then(happened, likely=False):
            b.call(declare(module, "PyErr_Clear", VOID, []), [])
        b.call(declare(module, "PyGILState_Release", VOID, [I32]), [state])
        with b.if_then(happened, likely=False):
            frame.stop(i64(STATUS.interrupt))
