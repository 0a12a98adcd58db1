"""Running sums, products, maxima and minima along one axis."""

from __future__ import annotations

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.frame import Frame
from tracegrad.emit.llvm import I64, POINTER, VOID, alloca, counted_loop, element, i64, memory_type
from tracegrad.emit.scalars import apply
from tracegrad.ir.dims import product
from tracegrad.schedule.loops import Call


def emit_cumulative(frame: Frame, call: Call) -> None:
    """`out = combine.accumulate(in, axis)`. attrs: combine, axis (not negative), reverse (from the end; default no).

    Along the last axis the running value stays in a register; along others whole rows are combined with the row before.
    """
    (source,), (target,) = call.inputs, call.outputs
    buffer = frame.unit.buffers[target]
    axis = int(call.attrs.get("axis", 0))
    combine, reverse = call.attrs["combine"], bool(call.attrs.get("reverse", False))
    function = _define(frame, buffer.dtype, combine, reverse, inner_is_one=product(buffer.shape[axis + 1 :]) == 1)
    sizes = [frame.sizes.value(product(part)) for part in (buffer.shape[:axis], buffer.shape[axis : axis + 1])]
    inner = frame.sizes.value(product(buffer.shape[axis + 1 :]))
    frame.builder.call(function, [*sizes, inner, frame.pointer(source), frame.pointer(target)])


def _define(frame: Frame, dtype: np.dtype, combine: str, reverse: bool, inner_is_one: bool) -> ir.Function:
    function = frame.unit.function("cumulative", VOID, [I64, I64, I64, POINTER, POINTER])
    outer, length, inner, source, target = function.args
    source.add_attribute("noalias")
    target.add_attribute("noalias")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    kind = memory_type(dtype)

    def step(before: ir.Value, position: ir.Value) -> ir.Value:
        value = b.load(element(b, source, position, kind), typ=kind)
        return apply(b, combine, [before, value], dtype, dtype)

    with counted_loop(b, i64(0), outer, name="outer") as o:
        base = b.mul(o, b.mul(length, inner))
        if inner_is_one:
            running = alloca(b, kind)
            with counted_loop(b, i64(0), length, name="along") as t:
                position = b.add(base, b.sub(b.sub(length, i64(1)), t) if reverse else t)
                first = b.icmp_signed("==", t, i64(0))
                value = b.load(element(b, source, position, kind), typ=kind)
                with b.if_else(first) as (start, later):
                    with start:
                        b.store(value, running)
                    with later:
                        b.store(step(b.load(running, typ=kind), position), running)
                b.store(b.load(running, typ=kind), element(b, target, position, kind))
        else:
            with counted_loop(b, i64(0), length, name="along") as t:
                row = b.sub(b.sub(length, i64(1)), t) if reverse else t
                here = b.add(base, b.mul(row, inner))
                before = b.add(here, inner) if reverse else b.sub(here, inner)
                with b.if_else(b.icmp_signed("==", t, i64(0))) as (start, later):
                    with start, counted_loop(b, i64(0), inner, name="inner") as k:
                        position = b.add(here, k)
                        value = b.load(element(b, source, position, kind), typ=kind)
                        b.store(value, element(b, target, position, kind))
                    with later, counted_loop(b, i64(0), inner, name="inner") as k:
                        position = b.add(here, k)
                        value = b.load(element(b, target, b.add(before, k), kind), typ=kind)
                        b.store(step(value, position), element(b, target, position, kind))
    b.ret_void()
    return function
