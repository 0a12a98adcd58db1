"""Loops and branches of the graph: each is a function of its own, in which the programs of its bodies are written out.

A body's program works on buffers that hold one step. `Step` points them to where the step's values lie: inputs and
outputs to memory that changes from step to step, small temporaries to the stack, where LLVM makes registers of them,
large ones to scratch memory that was taken with the workspace of the whole program. Nothing is allocated in a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import llvmlite.ir as ir

from tracegrad.emit.branches import emit_cond, emit_sized
from tracegrad.emit.frame import Frame
from tracegrad.emit.layout import STATUS
from tracegrad.emit.libraries import SET_THREADS, blas_threads
from tracegrad.emit.llvm import I32, I64, POINTER, declare, i64
from tracegrad.emit.loops import emit_scan, emit_while
from tracegrad.emit.scratch import scratch_key, scratch_size
from tracegrad.emit.steps import copy_value
from tracegrad.schedule.loops import Call, Region, calls_lapack, region_of

Emit = Callable[[Frame, Region, Sequence[ir.Value], Sequence[ir.Value], "ir.Value | None"], None]
_KINDS: dict[str, Emit] = {"scan": emit_scan, "while": emit_while, "cond": emit_cond, "sized": emit_sized}


def emit_region(frame: Frame, call: Call) -> None:
    """Define the function of a loop or branch and call it. It takes context, error, table, buffers and scratch."""
    region = region_of(call)
    assert region is not None
    unit = frame.unit
    scratch = frame.partials[scratch_key(call)] if scratch_size(unit, call) != 0 else None
    names = (*call.inputs, *call.outputs)
    roots = list(dict.fromkeys(map(unit.root, names)))  # what is updated in place is one argument
    given = [*map(frame.pointer, roots), *([] if scratch is None else [scratch])]
    function = unit.function(call.kernel, I64, [POINTER] * (3 + len(given)))
    for argument in function.args:
        argument.add_attribute("noalias")
    context, error, table, *rest = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    inner = Frame(unit, builder, context, error, table)
    pointers = [rest[roots.index(unit.root(name))] for name in names]
    own_scratch = None if scratch is None else rest[len(roots)]
    inputs, outputs = pointers[: len(call.inputs)], pointers[len(call.inputs) :]
    if call.kernel in ("cond", "sized"):
        _start_in_place(inner, call, region, inputs, outputs)
    _KINDS[call.kernel](inner, region, inputs, outputs, own_scratch)
    builder.ret(i64(STATUS.ok))
    b = frame.builder
    alone = not unit.inside and blas_threads() is not None and multiplies(region)
    if alone:  # products in a loop are small: a team of threads would wait for each other more than it computes
        set_threads(frame, 1)
    status = b.call(function, [frame.context, frame.error, frame.table, *given])
    if alone:
        set_threads(frame, blas_threads() or 1)
    with b.if_then(b.icmp_signed("!=", status, i64(0)), likely=False):
        frame.stop(status)


def _start_in_place(
    frame: Frame, call: Call, region: Region, inputs: list[ir.Value], outputs: Sequence[ir.Value]
) -> None:
    """Let what the bodies overwrite lie where the result is expected."""
    for i, o in region.in_place:
        if inputs[i] is not outputs[o]:
            copy_value(frame, frame.unit.buffers[call.outputs[o]], outputs[o], inputs[i])
            inputs[i] = outputs[o]


def multiplies(region: Region) -> bool:
    """Whether BLAS may be called in it."""
    for body in region.bodies:
        buffers = {b.name: b for b in body.buffers}
        for statement in body.body:
            if isinstance(statement, Call):
                inner = region_of(statement)
                if statement.kernel == "matmul" or calls_lapack(statement, buffers):
                    return True
                if inner is not None and multiplies(inner):
                    return True
    return False


def set_threads(frame: Frame, count: int) -> None:
    """Let BLAS work with `count` threads from here on."""
    frame.builder.call(declare(frame.unit.module, SET_THREADS, I32, [I32]), [ir.Constant(I32, count)])
