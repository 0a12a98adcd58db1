"""The program of a body, written into the function of its loop or branch."""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.ir as ir

from tracegrad.emit.buffers import place, workspace_size
from tracegrad.emit.cost import cost
from tracegrad.emit.frame import Frame
from tracegrad.emit.llvm import I8, alloca, element, has_scalars, memory_type
from tracegrad.emit.memory import place_constants
from tracegrad.emit.nests import copy, emit_statement, is_stack
from tracegrad.emit.parallel import emit_nest
from tracegrad.emit.scratch import bytes_of, is_small, plan_body
from tracegrad.schedule.loops import Buffer, Loop, LoopProgram, Stmt

INLINE = 2000  # of the units of `cost`: loops below are written into the function, others become functions themselves


class Step:
    """One body. It is made in the function's entry, where its memory is found, and emitted once, in the loop."""

    def __init__(self, outer: Frame, program: LoopProgram, scratch: ir.Value | None):
        self.program = program
        unit = outer.unit.body(program)
        self.frame = Frame(unit, outer.builder, outer.context, outer.error, outer.table)
        place_constants(self.frame)
        workspace = plan_body(outer.unit, program)
        if workspace.slots:
            assert scratch is not None
            offsets, _ = workspace_size(self.frame, workspace)
            place(self.frame, workspace, scratch, offsets, workspace.place)
        for buffer in program.buffers:
            if buffer.alias or buffer.name in self.frame.pointers:
                continue
            if buffer.role in ("temp", "local") and (is_small(buffer) or is_stack(buffer)):
                self.frame.pointers[buffer.name] = on_stack(outer.builder, buffer)

    def emit(self, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> None:
        """The statements, on values that lie at `inputs`; results go to `outputs`."""
        frame, program = self.frame, self.program
        for name, pointer in zip(program.inputs, inputs):
            frame.pointers[name] = pointer
        missing: list[tuple[str, ir.Value]] = []
        for name, pointer in zip(program.outputs, outputs):
            root = frame.unit.root(name)
            if root in frame.pointers:
                missing.append((name, pointer))
            else:
                frame.pointers[root] = pointer
        for statement in program.body:
            self._statement(statement)
        for name, pointer in missing:  # results that are inputs, or stand twice
            if frame.pointer(name) is pointer:
                continue  # updated in place
            copy_value(frame, frame.unit.buffers[name], pointer, frame.pointer(name))

    def _statement(self, statement: Stmt) -> None:
        frame = self.frame
        if isinstance(statement, Loop):
            work = cost((statement,), frame.unit.buffers)
            if not isinstance(work, int) or work > INLINE:
                emit_nest(frame, statement)
                return
        emit_statement(frame, statement)


def on_stack(builder: ir.IRBuilder, buffer: Buffer) -> ir.Value:
    """Memory for a small value in the function's frame, in a form of which LLVM makes registers."""
    kind = memory_type(buffer.dtype) if has_scalars(buffer.dtype) else I8
    count = int(bytes_of(buffer)) // (buffer.dtype.itemsize if kind != I8 or buffer.dtype.itemsize == 1 else 1)
    return alloca(builder, ir.ArrayType(kind, max(1, count)), align=64)


def copy_value(frame: Frame, buffer: Buffer, target: ir.Value, source: ir.Value) -> None:
    """Copy a value of that buffer's type."""
    copy(frame.builder, target, source, frame.sizes.value(bytes_of(buffer)))


def at_step(frame: Frame, base: ir.Value, buffer: Buffer, index: ir.Value) -> ir.Value:
    """Where element `index` of a stack of such values lies."""
    offset = frame.builder.mul(index, frame.sizes.value(bytes_of(buffer)), flags=("nsw",))
    return element(frame.builder, base, offset, I8)
