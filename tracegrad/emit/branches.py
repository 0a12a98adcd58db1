"""Branches, and graphs with a size that the program has just computed."""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.ir as ir

from tracegrad.emit.buffers import plan_workspace
from tracegrad.emit.frame import ExitFrame, Frame
from tracegrad.emit.layout import STATUS
from tracegrad.emit.llvm import (
    I8,
    I64,
    POINTER,
    VOID,
    alloca,
    declare,
    element,
    i64,
    load_word,
    maximum,
    minimum,
    store_word,
)
from tracegrad.emit.memory import acquire, place_constants
from tracegrad.emit.nests import copy, emit_statement
from tracegrad.emit.parallel import emit_nest
from tracegrad.emit.scratch import body_size, bytes_of
from tracegrad.emit.steps import Step
from tracegrad.schedule.loops import Loop, Region


def emit_cond(
    frame: Frame, region: Region, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], scratch: ir.Value | None
) -> None:
    b = frame.builder
    steps = []
    for body in region.bodies:
        steps.append(Step(frame, body, scratch))
        if scratch is not None:
            scratch = element(b, scratch, frame.sizes.value(body_size(frame.unit, body)), I8)
    index = b.load(inputs[0], typ=I64)
    index = maximum(b, minimum(b, index, i64(len(steps) - 1)), i64(0))
    done = b.append_basic_block("done")
    blocks = [b.append_basic_block(f"branch{k}") for k in range(len(steps))]
    choice = b.switch(index, blocks[-1])
    for k, block in enumerate(blocks[:-1]):
        choice.add_case(i64(k), block)
    for step, block in zip(steps, blocks):
        b.position_at_end(block)
        step.emit(inputs[1:], outputs)
        b.branch(done)
    b.position_at_end(done)


def emit_sized(
    frame: Frame, region: Region, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], scratch: ir.Value | None
) -> None:
    """Extend the table of sizes by the count, and call the body with it."""
    b = frame.builder
    former = frame.unit.symbols
    symbols = {**former, region.node.attrs["symbol"]: max(former.values(), default=-1) + 1}
    table = alloca(b, I64, len(symbols) + 1)
    for position in former.values():
        store_word(b, load_word(b, frame.table, position), table, position)
    count = maximum(b, b.load(inputs[0], typ=I64), i64(0))
    store_word(b, count, table, symbols[region.node.attrs["symbol"]])
    given = list(dict.fromkeys((*inputs[1:], *outputs)))  # what is updated in place is one argument
    places = [given.index(pointer) for pointer in (*inputs[1:], *outputs)]
    function = _define_sized(frame, region, symbols, places)
    status = b.call(function, [frame.context, frame.error, table, *given])
    with b.if_then(b.icmp_signed("!=", status, i64(0)), likely=False):
        frame.stop(status)


def _define_sized(outer: Frame, region: Region, symbols: dict[str, int], places: Sequence[int]) -> ir.Function:
    """The body as a function of context, error, table and buffers, with a workspace of its own. `places` says per
    input and output of the body which of the arguments it is."""
    (body,) = region.bodies
    unit = outer.unit.body(body, symbols)
    function = unit.function("sized", I64, [POINTER] * (4 + max(places, default=-1)))
    for argument in function.args:
        argument.add_attribute("noalias")
    context, error, table, *given = function.args
    rest = [given[k] for k in places]
    b = ir.IRBuilder(function.append_basic_block("entry"))
    frame = ExitFrame(unit, b, context, error, table)
    for name, pointer in zip((*body.inputs, *body.outputs), rest):
        frame.pointers.setdefault(unit.root(name), pointer)
    place_constants(frame)
    workspace = plan_workspace(unit)
    start = function.append_basic_block("body")
    b.branch(start)
    b.position_at_end(start)
    block = acquire(frame, workspace) if workspace.slots else None
    b.store(i64(STATUS.ok), frame.status)
    for statement in body.body:
        (emit_nest if isinstance(statement, Loop) else emit_statement)(frame, statement)
    for name, pointer in zip(body.outputs, rest[len(body.inputs) :]):
        if frame.pointer(name) is not pointer:  # an input, or a result that stands twice
            copy(b, pointer, frame.pointer(name), frame.sizes.value(bytes_of(unit.buffers[name])))
    b.branch(frame.exit)
    b.position_at_end(frame.exit)
    if block is not None:
        b.call(declare(unit.module, "tg_release", VOID, [POINTER, POINTER]), [context, block])
    b.ret(b.load(frame.status, typ=I64))
    return function
