"""Running sums, products, maxima and minima along one axis, and linear recurrences."""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.frame import Frame
from tracegrad.emit.llvm import I64, POINTER, VOID, alloca, counted_loop, element, i64, memory_type
from tracegrad.emit.scalars import apply
from tracegrad.ir.dims import product
from tracegrad.schedule.loops import Call

# The next result from the builder, the result before it, and what the inputs hold at the place.
Step = Callable[..., ir.Value]


def emit_cumulative(frame: Frame, call: Call) -> None:
    """`out = combine.accumulate(in, axis)`. attrs: combine, axis (not negative), reverse (from the end; default no)."""
    combine, dtype = call.attrs["combine"], frame.unit.buffers[call.outputs[0]].dtype

    def step(b: ir.IRBuilder, before: ir.Value, value: ir.Value) -> ir.Value:
        return apply(b, combine, [before, value], dtype, dtype)

    _emit(frame, call, step)


def emit_recurrence(frame: Frame, call: Call) -> None:
    """`out[i] = in0[i] * out[i-1] + in1[i]`, where an out[i-1] of exactly 0 contributes 0. attrs: axis, reverse."""
    dtype = frame.unit.buffers[call.outputs[0]].dtype

    def step(b: ir.IRBuilder, before: ir.Value, factor: ir.Value, term: ir.Value) -> ir.Value:
        return apply(b, "add", [term, apply(b, "zero_multiply", [before, factor], dtype, dtype)], dtype, dtype)

    _emit(frame, call, step)


def _emit(frame: Frame, call: Call, step: Step) -> None:
    """The results of `step` one after the other; the first is the last input's element.

    Along the last axis the running value stays in a register; along others whole rows are combined with the row before.
    """
    (target,) = call.outputs
    buffer = frame.unit.buffers[target]
    axis, reverse = int(call.attrs.get("axis", 0)), bool(call.attrs.get("reverse", False))
    inner_dim = product(buffer.shape[axis + 1 :])
    dims = (product(buffer.shape[:axis]), buffer.shape[axis], inner_dim)
    kernel = _Kernel(frame, call.kernel, buffer.dtype, len(call.inputs), step, reverse)
    function = kernel.define(inner_is_one=inner_dim == 1)
    pointers = [frame.pointer(name) for name in (*call.inputs, target)]
    frame.builder.call(function, [*map(frame.sizes.value, dims), *pointers])


class _Kernel:
    """The function of one call while it is emitted; `define` gives it."""

    def __init__(self, frame: Frame, name: str, dtype: np.dtype, n_inputs: int, step: Step, reverse: bool):
        self.function = frame.unit.function(name, VOID, [I64, I64, I64] + [POINTER] * (n_inputs + 1))
        self.outer, self.length, self.inner, *self.sources, self.target = self.function.args
        for pointer in (*self.sources, self.target):
            pointer.add_attribute("noalias")  # inputs may be one buffer: it is only read
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.kind, self.step, self.reverse = memory_type(dtype), step, reverse

    def define(self, inner_is_one: bool) -> ir.Function:
        b = self.builder
        with counted_loop(b, i64(0), self.outer, name="outer") as o:
            base = b.mul(o, b.mul(self.length, self.inner))
            (self.elements if inner_is_one else self.rows)(base)
        b.ret_void()
        return self.function

    def elements(self, base: ir.Value) -> None:
        b = self.builder
        running = alloca(b, self.kind)
        with counted_loop(b, i64(0), self.length, name="along") as t:
            position = b.add(base, self.place(t))
            with b.if_else(b.icmp_signed("==", t, i64(0))) as (start, later):
                with start:
                    b.store(self.read(self.sources[-1], position), running)
                with later:
                    b.store(self.next(b.load(running, typ=self.kind), position), running)
            b.store(b.load(running, typ=self.kind), element(b, self.target, position, self.kind))

    def rows(self, base: ir.Value) -> None:
        b = self.builder
        with counted_loop(b, i64(0), self.length, name="along") as t:
            here = b.add(base, b.mul(self.place(t), self.inner))
            before = b.add(here, self.inner) if self.reverse else b.sub(here, self.inner)
            with b.if_else(b.icmp_signed("==", t, i64(0))) as (start, later):
                with start, counted_loop(b, i64(0), self.inner, name="inner") as k:
                    position = b.add(here, k)
                    b.store(self.read(self.sources[-1], position), element(b, self.target, position, self.kind))
                with later, counted_loop(b, i64(0), self.inner, name="inner") as k:
                    position = b.add(here, k)
                    value = self.next(self.read(self.target, b.add(before, k)), position)
                    b.store(value, element(b, self.target, position, self.kind))

    def place(self, t: ir.Value) -> ir.Value:
        """Where step `t` is on the axis."""
        b = self.builder
        return b.sub(b.sub(self.length, i64(1)), t) if self.reverse else t

    def read(self, pointer: ir.Value, position: ir.Value) -> ir.Value:
        return self.builder.load(element(self.builder, pointer, position, self.kind), typ=self.kind)

    def next(self, before: ir.Value, position: ir.Value) -> ir.Value:
        return self.step(self.builder, before, *(self.read(source, position) for source in self.sources))
