"""Statements, and the functions that loop nests become.

Each outermost loop is a function of its own: its array arguments are `noalias`, without which LLVM does not vectorise,
and it is compiled apart from the others, which keeps compile time linear in the size of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.captures import Captures
from tracegrad.emit.casts import cast
from tracegrad.emit.frame import Frame
from tracegrad.emit.layout import STATUS
from tracegrad.emit.llvm import (
    F64,
    I8,
    I64,
    POINTER,
    alloca,
    counted_loop,
    element,
    i64,
    memory_type,
)
from tracegrad.emit.ranges import emit_loop
from tracegrad.emit.reductions import Accumulator, combine_values, identity
from tracegrad.ir.dims import product
from tracegrad.schedule.loops import (
    MATRICES,
    Buffer,
    Call,
    Check,
    Declare,
    Fill,
    Let,
    Loop,
    Stmt,
    Store,
    Update,
    UpdateAt,
    calls_lapack,
    region_of,
)


def emit_body(frame: Frame, body: Sequence[Stmt]) -> None:
    """The statements of `body`, in order, at the frame's position."""
    for statement in body:
        emit_statement(frame, statement)


def emit_statement(frame: Frame, statement: Stmt) -> None:
    if isinstance(statement, Let):
        frame.scalars[statement.name] = frame.expression(statement.value), statement.value.dtype
    elif isinstance(statement, Store):
        frame.store(frame.expression(statement.value), statement.buffer, statement.index)
    elif isinstance(statement, Declare):
        compensated = id(statement) in frame.unit.sums.compensated
        accumulator = Accumulator(frame.builder, statement.combine, statement.dtype, compensated)
        accumulator.start()
        frame.accumulators[statement.name] = accumulator
    elif isinstance(statement, Update):
        frame.accumulators[statement.name].update(frame.expression(statement.value))
    elif isinstance(statement, UpdateAt):
        _update_at(frame, statement)
    elif isinstance(statement, Fill):
        fill(frame, frame.pointer(statement.buffer), frame.unit.buffers[statement.buffer], statement.combine)
    elif isinstance(statement, Check):
        _check(frame, statement)
    elif isinstance(statement, Loop):
        end = frame.sizes.value(statement.extent)
        emit_loop(frame, statement, lambda: emit_body(frame, statement.body), i64(0), end)
    elif isinstance(statement, Call):
        _emitter(frame, statement)(frame, statement)
    else:
        raise TypeError(f"not a statement: {statement!r}")


def _emitter(frame: Frame, call: Call) -> Callable[[Frame, Call], None]:
    """What emits the call. Programs without such calls do without the import."""
    if region_of(call) is not None:
        from tracegrad.emit.regions import emit_region as emit
    elif calls_lapack(call, frame.unit.buffers):
        from tracegrad.emit.lapack import emit_lapack as emit
    elif call.kernel in MATRICES:
        from tracegrad.emit.matrices import emit_matrices as emit
    elif call.kernel == "matmul":
        from tracegrad.emit.blas import emit_matmul as emit
    elif call.kernel == "cumulative":
        from tracegrad.emit.cumulative import emit_cumulative as emit
    elif call.kernel == "recurrence":
        from tracegrad.emit.cumulative import emit_recurrence as emit
    else:
        from tracegrad.emit.host import emit_host as emit
    return emit


def _update_at(frame: Frame, statement: UpdateAt) -> None:
    dtype = frame.unit.buffers[statement.buffer].dtype
    value = frame.expression(statement.value)
    before = frame.load(statement.buffer, statement.index)
    after = combine_values(frame.builder, statement.combine, dtype, before, value)
    frame.store(after, statement.buffer, statement.index)


def _check(frame: Frame, statement: Check) -> None:
    b = frame.builder
    value, dtype = frame.expression(statement.index), statement.index.dtype
    wide = cast(b, value, dtype, np.dtype("i8"))
    if dtype == np.uint64:  # what int64 cannot hold is out of range, not negative
        wide = b.select(b.icmp_signed("<", wide, i64(0)), i64(2**63 - 1), wide)
    extent = frame.sizes.value(statement.extent)
    negative = b.icmp_signed("<", wide, i64(0))
    wrapped = b.select(negative, b.add(wide, extent), wide)
    number = len(frame.unit.checks)
    frame.unit.checks.append(statement)
    inside = b.icmp_unsigned("<", wrapped, extent)
    frame.stop_unless(inside, STATUS.index, i64(number), wide, extent)
    if statement.step != 1:
        wrapped = b.mul(wrapped, frame.sizes.value(statement.step))
    if statement.start != 0:
        wrapped = b.add(wrapped, frame.sizes.value(statement.start))
    frame.scalars[statement.name] = wrapped, np.dtype("i8")


def fill(frame: Frame, pointer: ir.Value, buffer: Buffer, combine: str) -> None:
    """Every element of the memory of `buffer` at `pointer` set to the identity of `combine`."""
    b = frame.builder
    value = identity(combine, buffer.dtype)
    count = frame.sizes.value(product(buffer.shape))
    if value.constant == 0 and not str(value.constant).startswith("-"):
        memset(b, pointer, b.mul(count, i64(buffer.dtype.itemsize)))
        return
    if buffer.dtype.kind == "b":
        value = ir.Constant(I8, int(value.constant))
    with counted_loop(b, i64(0), count, name="fill") as k:
        b.store(value, element(b, pointer, k, memory_type(buffer.dtype)))


def memset(builder: ir.IRBuilder, pointer: ir.Value, size: ir.Value) -> None:
    """Zero `size` bytes."""
    type = ir.FunctionType(ir.VoidType(), [POINTER, I8, I64, ir.IntType(1)])
    function = builder.module.declare_intrinsic("llvm.memset", [POINTER, I64], type)
    builder.call(function, [pointer, ir.Constant(I8, 0), size, ir.Constant(ir.IntType(1), 0)])


def copy(builder: ir.IRBuilder, target: ir.Value, source: ir.Value, size: ir.Value) -> None:
    """Copy `size` bytes between places that do not overlap."""
    type = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, ir.IntType(1)])
    function = builder.module.declare_intrinsic("llvm.memcpy", [POINTER, POINTER, I64], type)
    builder.call(function, [target, source, size, ir.Constant(ir.IntType(1), 0)])


# ---- nests --------------------------------------------------------------------------------------------------------


class Nest:
    """An outermost loop as a function of (begin, end, context, error, table, buffers…, scalars…, states…)."""

    def __init__(self, outer: Frame, loop: Loop):
        self.outer, self.loop = outer, loop
        found = outer.unit.captures(loop)
        read = tuple(n for n in found.scalars if n not in outer.variables)
        self.captures = Captures(found.buffers, read, found.updated)
        roots = dict.fromkeys(outer.unit.root(n) for n in found.buffers)
        self.local = [n for n in roots if is_stack(outer.unit.buffers[n])]
        self.passed = [n for n in roots if n not in self.local]
        self.scalars = [outer.scalar(n) for n in read]

    def arguments(self) -> list[ir.Value]:
        """The values of the surroundings, after begin and end and before the states."""
        outer = self.outer
        pointers = [outer.pointer(n) for n in self.passed]
        return [outer.context, outer.error, outer.table, *pointers, *(value for value, _ in self.scalars)]

    def define(self) -> ir.Function:
        """Emit the function. Its result is a status."""
        outer, unit = self.outer, self.outer.unit
        types = [I64, I64, *(a.type for a in self.arguments()), *(POINTER for _ in self.captures.updated)]
        function = unit.function("nest", I64, types)
        function.attributes.add("noinline")
        begin, end, context, error, table, *rest = function.args
        for argument in function.args:
            if argument.type == POINTER:
                argument.add_attribute("noalias")
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        frame = Frame(unit, builder, context, error, table)
        pointers, rest = rest[: len(self.passed)], rest[len(self.passed) :]
        frame.pointers.update(zip(self.passed, pointers))
        for name in self.local:
            frame.pointers[name] = stack_buffer(builder, unit.buffers[name])
        scalars, states = rest[: len(self.scalars)], rest[len(self.scalars) :]
        for name, value, (_, dtype) in zip(self.captures.scalars, scalars, self.scalars):
            frame.scalars[name] = value, dtype
        for name, state in zip(self.captures.updated, states):
            frame.accumulators[name] = accumulator = same_kind(builder, outer.accumulators[name])
            accumulator.load_state(state)
        after = function.append_basic_block("body")
        builder.branch(after)
        builder.position_at_end(after)
        emit_loop(frame, self.loop, lambda: emit_body(frame, self.loop.body), begin, end)
        for name, state in zip(self.captures.updated, states):
            frame.accumulators[name].store_state(state)
        builder.ret(i64(STATUS.ok))
        return function


def same_kind(builder: ir.IRBuilder, accumulator: Accumulator) -> Accumulator:
    """An accumulator like another, in another function."""
    return Accumulator(builder, accumulator.combine, accumulator.dtype, accumulator.compensated)


def state_slot(builder: ir.IRBuilder, count: int = 1) -> ir.Value:
    """Memory for the states of `count` accumulators."""
    return alloca(builder, F64, 2 * count)


STACK_BYTES = 16384  # of one local buffer; a nest has few of them


def is_stack(buffer: Buffer) -> bool:
    """Whether a local buffer is small enough, and of known size, to lie on the stack."""
    size = product(buffer.shape)
    return buffer.role == "local" and isinstance(size, int) and size * buffer.dtype.itemsize <= STACK_BYTES


def stack_buffer(builder: ir.IRBuilder, buffer: Buffer) -> ir.Value:
    return alloca(builder, memory_type(buffer.dtype), max(1, int(product(buffer.shape))), align=64)


def emit_serial_nest(frame: Frame, loop: Loop) -> None:
    """Call the loop's function for its whole range."""
    nest = Nest(frame, loop)
    function = nest.define()
    b = frame.builder
    states = []
    for name in nest.captures.updated:
        states.append(state_slot(b))
        frame.accumulators[name].store_state(states[-1])
    status = b.call(function, [i64(0), frame.sizes.value(loop.extent), *nest.arguments(), *states])
    with b.if_then(b.icmp_signed("!=", status, i64(0)), likely=False):
        frame.stop(status)
    for name, state in zip(nest.captures.updated, states):
        frame.accumulators[name].load_state(state)
