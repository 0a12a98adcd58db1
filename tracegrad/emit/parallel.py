"""Parallel loops: chunks of the range, partial results per chunk, and when that is worth it.

The borders of chunks follow from the sizes alone, and partial results are combined in the order of the chunks, so the
result has the same bits for every number of threads, one included.
"""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.captures import walk
from tracegrad.emit.cost import cost
from tracegrad.emit.frame import Frame
from tracegrad.emit.layout import ERROR
from tracegrad.emit.llvm import (
    F64,
    I64,
    POINTER,
    VOID,
    alloca,
    counted_loop,
    declare,
    element,
    function_pointer,
    i64,
    load_word,
    maximum,
    memory_type,
    minimum,
    run_once,
    store_word,
)
from tracegrad.emit.nests import Nest, emit_serial_nest, fill, state_slot
from tracegrad.emit.reductions import combine_values
from tracegrad.ir.dims import DimLike, product
from tracegrad.schedule.loops import Buffer, Call, Check, Loop, UpdateAt

MAX_CHUNKS = 16
SHORT = 4096  # elements of an array per chunk that are added one by one, to keep the code small
WORDS = (POINTER, I64, F64)  # types of 64 bits
VECTOR = 64  # bytes of sums that are added at once
GRAIN = 150_000  # cost of the smallest chunk: some 15 µs, ten times what entering the pool takes


def may_be_parallel(loop: Loop, buffers: dict[str, Buffer]) -> bool:
    """Whether the loop is cut into chunks, or may be when its sizes are known."""
    if loop.kind != "parallel":
        return False
    work, grain = _work_and_grain(loop, buffers)
    return not (isinstance(work, int) and isinstance(grain, int) and work < 2 * grain)


def _work_and_grain(loop: Loop, buffers: dict[str, Buffer]) -> tuple[DimLike, DimLike]:
    """The cost of the loop and of its smallest chunk, which grows with the partial arrays a chunk sets and adds."""
    partial = sum((product(buffers[n].shape) for n in reduced_buffers(buffers, loop)), start=0)
    return loop.extent * (cost(loop.body, buffers) + 1), GRAIN + 8 * partial


def reduced_buffers(buffers: dict[str, Buffer], loop: Loop) -> list[str]:
    """The array accumulators of a parallel loop: the buffers that own their memory."""
    return list(dict.fromkeys(buffers[n].alias or n for n in loop.reduced if n in buffers))


def emit_nest(frame: Frame, loop: Loop) -> None:
    """An outermost loop: a call of its function, or of several chunks of it."""
    if may_be_parallel(loop, frame.unit.buffers):
        _Chunks(frame, loop).emit()
    else:
        emit_serial_nest(frame, loop)


def chunks_for(
    frame: Frame, extent: ir.Value, work: ir.Value, grain: ir.Value, most: ir.Value | None = None
) -> tuple[ir.Value, ir.Value]:
    """The iterations of a chunk and the number of chunks, for a loop whose work and whose smallest chunk are known."""
    b = frame.builder
    wanted = b.sdiv(work, grain)
    wanted = minimum(b, wanted, i64(MAX_CHUNKS) if most is None else most)
    wanted = maximum(b, minimum(b, wanted, extent), i64(1))
    size = b.sdiv(b.add(extent, b.sub(wanted, i64(1))), wanted)
    step = maximum(b, size, i64(1))
    return size, maximum(b, b.sdiv(b.add(extent, b.sub(step, i64(1))), step), i64(1))


def run_chunks(frame: Frame, chunk: ir.Function, fields: Sequence[ir.Value], count: ir.Value) -> None:
    """Call `chunk(data, number)` for every number below `count`, on the pool if they are several. `data` are the
    fields as words."""
    b = frame.builder
    data = alloca(b, I64, len(fields))
    for position, value in enumerate(fields):
        store_word(b, value if value.type in WORDS else as_word(b, value), data, position)
    with b.if_else(b.icmp_signed("==", count, i64(1))) as (alone, many):
        with alone:
            b.call(chunk, [data, i64(0)])
        with many:
            run = declare(b.module, "tg_parallel", VOID, [POINTER, POINTER, POINTER, I64])
            b.call(run, [frame.context, function_pointer(b, chunk), data, count])


def stop_with_first_error(frame: Frame, errors: ir.Value, count: ir.Value) -> None:
    """Leave with the error of the first chunk that has one."""
    b = frame.builder
    with counted_loop(b, i64(0), count, name="chunk") as number:
        record = element(b, errors, b.mul(number, i64(ERROR.words)), I64)
        status = load_word(b, record, ERROR.status)
        with b.if_then(b.icmp_signed("!=", status, i64(0)), likely=False):
            for word in (ERROR.check, ERROR.value, ERROR.extent):
                store_word(b, load_word(b, record, word), frame.error, word)
            frame.stop(status)


class _Chunks:
    """The code around a nest that is cut into chunks."""

    def __init__(self, frame: Frame, loop: Loop):
        self.frame, self.loop = frame, loop
        self.nest = Nest(frame, loop)
        self.arrays = reduced_buffers(frame.unit.buffers, loop)
        self.locals = [n for n in self.nest.passed if frame.unit.buffers[n].role == "local"]
        work, grain = _work_and_grain(loop, frame.unit.buffers)
        self.extent = frame.sizes.value(loop.extent)
        self.size, self.count = chunks_for(frame, self.extent, frame.sizes.value(work), frame.sizes.value(grain))

    def emit(self) -> None:
        frame, b = self.frame, self.frame.builder
        names = self.nest.captures.updated
        self.states = state_slot(b, MAX_CHUNKS * max(1, len(names)))
        self.errors = alloca(b, I64, MAX_CHUNKS * ERROR.words)
        partials = [frame.partials[id(self.loop), n] for n in self.arrays]
        self.fields = [*self.nest.arguments(), self.states, self.errors, self.size, self.extent, *partials]
        chunk = self._define_chunk()
        run_chunks(frame, chunk, self.fields, self.count)
        if any(isinstance(s, (Check, Call)) for s in walk(self.loop.body)):
            stop_with_first_error(frame, self.errors, self.count)
        self._combine(names, partials)

    def _define_chunk(self) -> ir.Function:
        """`chunk(data, number)`: one chunk, its results into states, errors and partial arrays."""
        unit, nest = self.frame.unit, self.nest
        body = nest.define()
        function = unit.function("chunk", VOID, [POINTER, I64])
        run_once(function)
        data, number = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        values = [
            load_word(b, data, k, v.type) if v.type in WORDS else from_word(b, load_word(b, data, k), v.type)
            for k, v in enumerate(self.fields)
        ]
        arguments = values[: len(nest.arguments())]
        states, errors, size, extent, *partials = values[len(arguments) :]
        frame = Frame(unit, b, arguments[0], arguments[1], arguments[2])
        begin = minimum(b, b.mul(number, size), extent)
        end = minimum(b, b.add(begin, size), extent)
        arguments[1] = error = element(b, errors, b.mul(number, i64(ERROR.words)), I64)
        store_word(b, i64(0), error, ERROR.shared)
        for name, partial in zip(self.arrays, partials):
            position = 3 + nest.passed.index(name)
            arguments[position] = self._own_array(frame, name, arguments[position], partial, number)
        for name in self.locals:
            position = 3 + nest.passed.index(name)
            arguments[position] = self._part(frame, name, arguments[position], number)
        own = []
        for k, name in enumerate(nest.captures.updated):
            own.append(self._state(b, states, number, k))
            self.frame.accumulators[name].store_start(b, own[-1])
        store_word(b, b.call(body, [begin, end, *arguments, *own]), error, ERROR.status)
        b.ret_void()
        return function

    def _state(self, b: ir.IRBuilder, states: ir.Value, number: ir.Value, k: int) -> ir.Value:
        count = len(self.nest.captures.updated)
        position = b.add(b.mul(number, i64(count)), i64(k))
        return element(b, states, b.mul(position, i64(2)), I64)

    def _own_array(self, frame: Frame, name: str, main: ir.Value, partial: ir.Value, number: ir.Value) -> ir.Value:
        """The array chunk `number` accumulates into: the real one for the first, which was filled before the loop."""
        b = frame.builder
        mine = self._part(frame, name, partial, b.sub(number, i64(1)))
        first = b.icmp_signed("==", number, i64(0))
        with b.if_then(b.not_(first)):
            fill(frame, mine, frame.unit.buffers[name], self._combines()[name])
        return b.select(first, main, mine)

    def _part(self, frame: Frame, name: str, base: ir.Value, number: ir.Value) -> ir.Value:
        """Copy number `number` of a buffer, of those that lie one after the other from `base` on."""
        buffer = frame.unit.buffers[name]
        offset = frame.builder.mul(number, frame.sizes.value(product(buffer.shape)))
        return element(frame.builder, base, offset, memory_type(buffer.dtype))

    def _combines(self) -> dict[str, str]:
        """How each array accumulator of the loop combines."""
        root = self.frame.unit.root
        return {root(s.buffer): s.combine for s in walk(self.loop.body) if isinstance(s, UpdateAt)}

    def _combine(self, names: Sequence[str], partials: Sequence[ir.Value]) -> None:
        frame, b = self.frame, self.frame.builder
        for name in names:
            frame.accumulators[name].flush()
        if names:
            with counted_loop(b, i64(0), self.count, name="chunk") as number:
                for k, name in enumerate(names):
                    frame.accumulators[name].merge_state(self._state(b, self.states, number, k))
        for name, partial in zip(self.arrays, partials):
            buffer = frame.unit.buffers[name]
            extent = product(buffer.shape)
            short = isinstance(extent, int) and extent <= SHORT
            merge = _define_merge(frame, self._combines()[name], buffer.dtype, short)
            b.call(merge, [frame.pointer(name), partial, self.count, frame.sizes.value(extent)])


def _define_merge(frame: Frame, combine: str, dtype: np.dtype, short: bool) -> ir.Function:
    """`merge(target, partials, count, extent)`: combine `target` with the partial arrays of the chunks from 1 on."""
    name = f"{frame.unit.stem}_merge_{combine}_{dtype}{'_short' if short else ''}"
    found = frame.unit.module.globals.get(name)
    if found is not None:
        return found
    function = ir.Function(frame.unit.module, ir.FunctionType(VOID, [POINTER, POINTER, I64, I64]), name)
    function.linkage = "internal"
    target, partials, count, extent = function.args
    for argument in (target, partials):
        argument.add_attribute("noalias")
    b, kind = ir.IRBuilder(function.append_basic_block("entry")), memory_type(dtype)
    sums = combine == "add" and dtype.kind == "f"
    with counted_loop(b, i64(1), count, name="chunk") as number:
        mine = element(b, partials, b.mul(b.sub(number, i64(1)), extent), kind)
        done = i64(0)
        if sums:  # vectors written here need none of LLVM's passes
            run_once(function)
            width = VECTOR // dtype.itemsize
            done = b.and_(extent, i64(-width))
            with counted_loop(b, i64(0), done, i64(width), name="v") as k:
                vector, align = ir.VectorType(kind, width), dtype.itemsize
                where = element(b, target, k, kind)
                second = b.load(element(b, mine, k, kind), align=align, typ=vector)
                b.store(b.fadd(b.load(where, align=align, typ=vector), second), where, align=align)
        with counted_loop(b, done, extent, name="k", few=short or sums) as k:
            where = element(b, target, k, kind)
            first, second = b.load(where, typ=kind), b.load(element(b, mine, k, kind), typ=kind)
            b.store(combine_values(b, combine, dtype, first, second), where)
    b.ret_void()
    return function


def as_word(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """The bits of a scalar or pointer in an i64."""
    if value.type == POINTER:
        return b.ptrtoint(value, I64)
    if isinstance(value.type, ir.IntType):
        return b.zext(value, I64) if value.type.width < 64 else value
    bits = b.bitcast(value, ir.IntType(32 if isinstance(value.type, ir.FloatType) else 64))
    return b.zext(bits, I64) if bits.type.width < 64 else bits


def from_word(b: ir.IRBuilder, word: ir.Value, type: ir.Type) -> ir.Value:
    """The inverse of `as_word`."""
    if type == POINTER:
        return b.inttoptr(word, POINTER)
    if isinstance(type, ir.IntType):
        return b.trunc(word, type) if type.width < 64 else word
    if isinstance(type, ir.FloatType):
        word = b.trunc(word, ir.IntType(32))
    return b.bitcast(word, type)
