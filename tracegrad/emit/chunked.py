"""Scans whose steps are independent, cut into chunks of steps that run on the thread pool.

Sums that the steps add to start at zero in every chunk but the first, and are added in the order of the chunks. As for
nests the borders follow from the sizes alone, so the bits are the same for every number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import llvmlite.ir as ir

from tracegrad.emit.frame import Frame
from tracegrad.emit.independent import MEMORY, work_and_grain
from tracegrad.emit.layout import ERROR, STATUS
from tracegrad.emit.llvm import (
    I8,
    I64,
    POINTER,
    VOID,
    alloca,
    counted_loop,
    element,
    i64,
    load_word,
    maximum,
    memory_type,
    minimum,
    store_word,
)
from tracegrad.emit.nests import fill
from tracegrad.emit.parallel import MAX_CHUNKS, chunks_for, run_chunks, stop_with_first_error
from tracegrad.emit.reductions import combine_values
from tracegrad.emit.scratch import bytes_of, most_chunks_of, rounded, step_bytes
from tracegrad.emit.steps import copy_value
from tracegrad.ir.dims import DimLike, product
from tracegrad.schedule.independent import SUM
from tracegrad.schedule.loops import Buffer, LoopProgram, Region

Pointers = Sequence[ir.Value]
Steps = Callable[[Frame, Pointers, Pointers, "ir.Value | None", ir.Value, ir.Value], None]


class ChunkedScan:
    """The code around the steps of one scan. `steps` emits those from a first to a last one, on given memory."""

    def __init__(self, frame: Frame, region: Region, body: LoopProgram, steps: Steps):
        assert region.independent is not None
        self.frame, self.region, self.steps = frame, region, steps
        self.kinds = region.independent
        self.carries = [body.buffer(name) for name in body.inputs[: len(self.kinds)]]

    def emit(self, inputs: Pointers, outputs: Pointers, scratch: ir.Value | None) -> None:
        frame, b, sizes = self.frame, self.frame.builder, self.frame.sizes
        self.inputs, self.outputs, self.scratch = inputs, outputs, scratch
        extent = sizes.value(self.region.node.attrs["length"])
        work, grain = map(sizes.value, work_and_grain(self.region))
        self.memory = step_bytes(frame.unit, self.region)
        fitting = b.sdiv(i64(MEMORY), maximum(b, sizes.value(self.memory), i64(1)))
        most = most_chunks_of(frame.unit, self.region)
        size, count = chunks_for(frame, extent, work, grain, minimum(b, fitting, i64(most)))
        errors = alloca(b, I64, MAX_CHUNKS * ERROR.words)
        self.given = list(dict.fromkeys([*inputs, *outputs, *([] if scratch is None else [scratch])]))
        store_word(b, i64(STATUS.ok), frame.error, ERROR.status)
        fields = [frame.context, frame.error, frame.table, errors, size, extent, *self.given]
        starts = [None if k == SUM else self._count(b, inputs[p], self.carries[p]) for p, k in enumerate(self.kinds)]
        run_chunks(frame, self._define_chunk(), fields, count)
        stop_with_first_error(frame, errors, count)
        with counted_loop(b, i64(1), count, name="chunk") as number:
            for position, kind in enumerate(self.kinds):
                if kind == SUM:
                    self._merge(position, number)
        for position, start in enumerate(starts):
            if start is not None:
                self._store_count(frame, outputs[position], position, start, extent)

    # ---- memory

    def _partial(self, frame: Frame, base: ir.Value, position: int, number: ir.Value) -> ir.Value:
        """Where chunk `number` (from 1 on) has its own value of a carry."""
        b, before = frame.builder, self._carry_bytes(position)
        most = most_chunks_of(frame.unit, self.region)
        size = frame.sizes.value(rounded(bytes_of(self.carries[position])))
        start = b.add(frame.sizes.value(before * (most - 1)), b.mul(b.sub(number, i64(1)), size))
        return element(b, base, start, I8)

    def _carry_bytes(self, end: int) -> DimLike:
        return sum((rounded(bytes_of(c)) for c in self.carries[:end]), start=0)

    def _own_scratch(self, frame: Frame, base: ir.Value, number: ir.Value) -> ir.Value:
        b, most = frame.builder, most_chunks_of(frame.unit, self.region)
        first = frame.sizes.value(self._carry_bytes(len(self.carries)) * (most - 1))
        offset = b.add(first, b.mul(number, frame.sizes.value(self.memory)))
        return element(b, base, offset, I8)

    # ---- chunks

    def _define_chunk(self) -> ir.Function:
        """`chunk(data, number)`: some of the steps, their status into the chunk's error record."""
        unit = self.frame.unit
        body = self._define_steps()
        function = unit.function("chunk", VOID, [POINTER, I64])
        data, number = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        context, shared, table, errors = (load_word(b, data, k, POINTER) for k in range(4))
        size, extent = load_word(b, data, 4), load_word(b, data, 5)
        given = [load_word(b, data, 6 + k, POINTER) for k in range(len(self.given))]
        where = dict(zip(self.given, given, strict=True))
        frame = Frame(unit, b, context, shared, table)
        error = element(b, errors, b.mul(number, i64(ERROR.words)), I64)
        with b.if_then(b.icmp_signed("!=", load_word(b, shared, ERROR.status), i64(STATUS.ok)), likely=False):
            store_word(b, i64(STATUS.interrupt), error, ERROR.status)
            b.ret_void()
        begin = minimum(b, b.mul(number, size), extent)
        end = minimum(b, b.add(begin, size), extent)
        store_word(b, shared, error, ERROR.shared)
        places = [self._place(frame, where, position, number, begin) for position in range(len(self.carries))]
        own = [] if self.scratch is None else [self._own_scratch(frame, where[self.scratch], number)]
        status = b.call(body, [context, error, table, begin, end, *places, *(where[v] for v in self._passed()), *own])
        store_word(b, status, error, ERROR.status)
        with b.if_then(b.icmp_signed("==", status, i64(STATUS.interrupt)), likely=False):
            store_word(b, status, shared, ERROR.status)
        b.ret_void()
        return function

    def _passed(self) -> list[ir.Value]:
        n = len(self.carries)
        return list(dict.fromkeys((*self.inputs[n:], *self.outputs[n:])))

    def _define_steps(self) -> ir.Function:
        """`steps(context, error, table, begin, end, carries…, xs, invariants and ys…, scratch)`, whose result is a
        status. The carries lie at one place before and after."""
        passed, n = self._passed(), len(self.carries)
        types = [*[POINTER] * 3, I64, I64, *[POINTER] * (n + len(passed) + (self.scratch is not None))]
        function = self.frame.unit.function("steps", I64, types)
        for argument in function.args:
            if argument.type == POINTER:
                argument.add_attribute("noalias")
        context, error, table, begin, end, *rest = function.args
        where = dict(zip(passed, rest[n:]))
        b = ir.IRBuilder(function.append_basic_block("entry"))
        frame = Frame(self.frame.unit, b, context, error, table)
        inputs = [*rest[:n], *(where[v] for v in self.inputs[n:])]
        outputs = [*rest[:n], *(where[v] for v in self.outputs[n:])]
        self.steps(frame, inputs, outputs, None if self.scratch is None else rest[-1], begin, end)
        b.ret(i64(STATUS.ok))
        return function

    def _place(
        self, frame: Frame, where: dict[ir.Value, ir.Value], position: int, number: ir.Value, begin: ir.Value
    ) -> ir.Value:
        """Where a chunk has a carry, which is set to what it starts with there."""
        b, buffer = frame.builder, self.carries[position]
        start, final = where[self.inputs[position]], where[self.outputs[position]]
        assert self.scratch is not None
        first = b.icmp_signed("==", number, i64(0))
        place = b.select(first, final, self._partial(frame, where[self.scratch], position, number))
        if self.kinds[position] != SUM:
            self._store_count(frame, place, position, self._count(b, start, buffer), begin)
            return place
        with b.if_else(first) as (yes, no):
            with yes:
                if start is not final:
                    copy_value(frame, buffer, place, start)
            with no:
                fill(frame, place, buffer, "add")
        return place

    @staticmethod
    def _count(b: ir.IRBuilder, start: ir.Value, buffer: Buffer) -> ir.Value:
        return b.load(start, typ=memory_type(buffer.dtype))

    def _store_count(self, frame: Frame, place: ir.Value, position: int, start: ir.Value, steps: ir.Value) -> None:
        """The value of a count after so many steps."""
        b = frame.builder
        taken = b.trunc(steps, start.type) if start.type.width < 64 else steps
        b.store(b.add(start, b.mul(taken, ir.Constant(start.type, self.kinds[position]))), place)

    def _merge(self, position: int, number: ir.Value) -> None:
        """Add a chunk's sum to the first one's."""
        frame, b, buffer = self.frame, self.frame.builder, self.carries[position]
        assert self.scratch is not None
        kind = memory_type(buffer.dtype)
        mine = self._partial(frame, self.scratch, position, number)
        with counted_loop(b, i64(0), frame.sizes.value(product(buffer.shape)), name="k") as k:
            target = element(b, self.outputs[position], k, kind)
            first, second = b.load(target, typ=kind), b.load(element(b, mine, k, kind), typ=kind)
            b.store(combine_values(b, "add", buffer.dtype, first, second), target)
