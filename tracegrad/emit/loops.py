"""Loops with a carry: `scan` and `while`.

A small carry has two places on the stack, one that the step reads and one that it writes, which LLVM turns into
registers; a large one has two buffers that change roles after each step. One that the step updates in place has one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import llvmlite.ir as ir

from tracegrad.emit.chunked import ChunkedScan
from tracegrad.emit.cost import cost
from tracegrad.emit.frame import Frame
from tracegrad.emit.interrupt import interruptible_loop, stop_if_interrupted
from tracegrad.emit.layout import STATUS
from tracegrad.emit.llvm import I1, I8, I64, POINTER, alloca, counted_loop, element, i64, memory_type
from tracegrad.emit.scratch import body_size, bytes_of, is_small, most_chunks_of, rounded
from tracegrad.emit.steps import Step, at_step, copy_value, on_stack
from tracegrad.ir.dims import DimLike, product
from tracegrad.schedule.loops import Buffer, LoopProgram, Region, in_place


class Carry:
    """One carried value: `read` and `write` are its places in the present step; `advance` ends a step."""

    def __init__(
        self, frame: Frame, buffer: Buffer, start: ir.Value, final: ir.Value, second: ir.Value | None, one: bool = False
    ):
        self.frame, self.buffer, self.start, self.final = frame, buffer, start, final
        b = frame.builder
        if is_small(buffer) or one:
            self._now = on_stack(b, buffer) if is_small(buffer) else final
            self._next = self._now if one else on_stack(b, buffer)
            if self._now is not start:
                copy_value(frame, buffer, self._now, start)
            return
        self._where, self._other = alloca(b, POINTER), alloca(b, POINTER)
        self._now = None
        b.store(start, self._where)
        b.store(second if start is final else final, self._other)
        self.second = second

    def read(self) -> ir.Value:
        return self._now if self._now is not None else self.frame.builder.load(self._where, typ=POINTER)

    def write(self) -> ir.Value:
        return self._next if self._now is not None else self.frame.builder.load(self._other, typ=POINTER)

    def advance(self) -> None:
        """What was written becomes what is read. The initial value is never written over."""
        if self._now is not None:
            if self._now is not self._next:
                copy_value(self.frame, self.buffer, self._now, self._next)
            return
        b = self.frame.builder
        written = b.load(self._other, typ=POINTER)
        was_final = b.icmp_unsigned("==", b.ptrtoint(written, I64), b.ptrtoint(self.final, I64))
        b.store(b.select(was_final, self.second, self.final), self._other)
        b.store(written, self._where)

    def finish(self) -> None:
        """Put the last value where the result is expected."""
        b = self.frame.builder
        source = self.read()
        if self._now is not None:
            if source is not self.final:
                copy_value(self.frame, self.buffer, self.final, source)
            return
        elsewhere = b.icmp_unsigned("!=", b.ptrtoint(source, I64), b.ptrtoint(self.final, I64))
        with b.if_then(elsewhere):
            copy_value(self.frame, self.buffer, self.final, source)


class _Loop:
    """What both kinds share: the carries, and scratch memory cut into its pieces."""

    def __init__(
        self, frame: Frame, body: LoopProgram, n_carry: int, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value],
        scratch: ir.Value | None,
    ):  # fmt: skip
        self.frame, self.scratch = frame, scratch
        self.carries = []
        for k, (name, start, final) in enumerate(zip(body.inputs[:n_carry], inputs, outputs)):
            buffer, one = body.buffer(name), in_place(body, k, k)
            second = None if one or is_small(buffer) else self.take(rounded(bytes_of(buffer)))
            self.carries.append(Carry(frame, buffer, start, final, second, one))

    def take(self, size: DimLike) -> ir.Value | None:
        """The next `size` bytes of scratch."""
        taken = self.scratch
        if taken is not None:
            self.scratch = element(self.frame.builder, taken, self.frame.sizes.value(size), I8)
        return taken

    def advance(self) -> None:
        for carry in self.carries:
            carry.advance()

    def finish(self) -> None:
        for carry in self.carries:
            carry.finish()


def emit_scan(
    frame: Frame, region: Region, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], scratch: ir.Value | None
) -> None:
    """The loop; where it has a faster body, that one first, and the real one only if a NaN says so."""
    if region.plain is None:
        _scan(frame, region, region.bodies[0], inputs, outputs, scratch)
        return
    _scan(frame, region, region.plain, inputs, outputs, scratch)
    b = frame.builder
    given = [*inputs, *outputs, *([] if scratch is None else [scratch])]
    with b.if_then(_any_nan(frame, region, outputs), likely=False):
        status = b.call(_define_again(frame, region, given, len(inputs), len(outputs)),
                        [frame.context, frame.error, frame.table, *given])  # fmt: skip
        with b.if_then(b.icmp_signed("!=", status, i64(0)), likely=False):
            frame.stop(status)


def _define_again(
    outer: Frame, region: Region, given: Sequence[ir.Value], n_inputs: int, n_outputs: int
) -> ir.Function:
    """The loop with the real body, as a function that is compiled for size, since it hardly ever runs."""
    unit = outer.unit
    function = unit.function("again", I64, [POINTER] * (3 + len(given)))
    for attribute in ("cold", "noinline", "optsize", "minsize"):
        function.attributes.add(attribute)
    for argument in function.args:
        argument.add_attribute("noalias")
    context, error, table, *rest = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    frame = Frame(unit, builder, context, error, table)
    inputs, outputs, scratch = rest[:n_inputs], rest[n_inputs : n_inputs + n_outputs], rest[n_inputs + n_outputs :]
    _scan(frame, region, region.bodies[0], inputs, outputs, scratch[0] if scratch else None)
    builder.ret(i64(STATUS.ok))
    return function


def _any_nan(frame: Frame, region: Region, outputs: Sequence[ir.Value]) -> ir.Value:
    """Whether there is a NaN in the outputs that the faster body may have wrong."""
    b = frame.builder
    (body,) = region.bodies
    found = alloca(b, I1)
    b.store(ir.Constant(I1, 0), found)
    for k in region.suspects:
        buffer = body.buffer(body.outputs[k])
        kind = memory_type(buffer.dtype)
        steps = region.node.attrs["length"] if k >= region.node.attrs["n_carry"] else 1
        count = frame.sizes.value(product((steps, *buffer.shape)))
        with counted_loop(b, i64(0), count, name="nan") as position:
            x = b.load(element(b, outputs[k], position, kind), typ=kind)
            b.store(b.or_(b.load(found, typ=I1), b.fcmp_unordered("uno", x, x)), found)
    return b.load(found, typ=I1)


def _scan(
    frame: Frame, region: Region, body: LoopProgram, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value],
    scratch: ir.Value | None,
) -> None:  # fmt: skip
    if most_chunks_of(frame.unit, region) > 1:
        steps = functools.partial(_steps, region, body)
        ChunkedScan(frame, region, body, steps).emit(inputs, outputs, scratch)
    else:
        _steps(region, body, frame, inputs, outputs, scratch)


def _steps(
    region: Region, body: LoopProgram, frame: Frame, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value],
    scratch: ir.Value | None, begin: ir.Value | None = None, end: ir.Value | None = None,
) -> None:  # fmt: skip
    """The steps from `begin` to `end`, or all of them."""
    attrs, b = region.node.attrs, frame.builder
    n_carry, n_stacked = attrs["n_carry"], attrs["n_carry"] + attrs["n_xs"]
    loop = _Loop(frame, body, n_carry, inputs, outputs, scratch)
    step = Step(frame, body, loop.scratch)
    xs = [(body.buffer(name), base) for name, base in zip(body.inputs[n_carry:n_stacked], inputs[n_carry:n_stacked])]
    ys = [(body.buffer(name), base) for name, base in zip(body.outputs[n_carry:], outputs[n_carry:])]
    length = frame.sizes.value(attrs["length"])

    def one_step(t: ir.Value) -> None:
        index = b.sub(b.sub(length, i64(1)), t, flags=("nsw",)) if attrs["reverse"] else t
        elements = [at_step(frame, base, buffer, index) for buffer, base in xs]
        results = [at_step(frame, base, buffer, index) for buffer, base in ys]
        step.emit(
            [*(c.read() for c in loop.carries), *elements, *inputs[n_stacked:]],
            [*(c.write() for c in loop.carries), *results],
        )
        loop.advance()

    work = cost(body.body, {buffer.name: buffer for buffer in body.buffers})
    interruptible_loop(frame, attrs["length"], work, attrs["unroll"], one_step, begin, end)
    loop.finish()


def emit_while(
    frame: Frame, region: Region, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], scratch: ir.Value | None
) -> None:
    condition, body = region.bodies
    attrs, b = region.node.attrs, frame.builder
    n_carry, end = attrs["n_carry"], attrs["n_carry"] + attrs["n_condition"]
    loop = _Loop(frame, body, n_carry, inputs, outputs, scratch)
    asked = Step(frame, condition, loop.scratch)
    loop.take(body_size(frame.unit, condition))
    step = Step(frame, body, loop.scratch)
    answer, count = alloca(b, I8), alloca(b, I64)
    b.store(i64(0), count)
    head, inside, done = (b.append_basic_block(f"while.{part}") for part in ("head", "body", "done"))
    b.branch(head)
    b.position_at_end(head)
    asked.emit([*(c.read() for c in loop.carries), *inputs[n_carry:end]], [answer])
    b.cbranch(b.icmp_unsigned("!=", b.load(answer, typ=I8), ir.Constant(I8, 0)), inside, done)
    b.position_at_end(inside)
    step.emit([*(c.read() for c in loop.carries), *inputs[end:]], [c.write() for c in loop.carries])
    loop.advance()
    taken = b.add(b.load(count, typ=I64), i64(1))
    b.store(taken, count)
    stop_if_interrupted(frame, taken)
    b.branch(head)
    b.position_at_end(done)
    loop.finish()
    b.store(b.load(count, typ=I64), outputs[n_carry])
