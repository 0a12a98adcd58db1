"""Where the buffers of a program lie that are no arguments: constants in the code or the context, the workspace."""

from __future__ import annotations

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.buffers import Workspace, place, workspace_size
from tracegrad.emit.frame import ExitFrame, Frame
from tracegrad.emit.layout import CONTEXT, STATUS
from tracegrad.emit.llvm import I64, POINTER, declare, has_scalars, i64, load_word, memory_type
from tracegrad.schedule.loops import Buffer

BAKED = 64  # constants of at most this many elements are part of the code


def place_constants(frame: Frame) -> None:
    """Point the frame to the constants of its unit's program; large ones are noted for the context to hold."""
    unit = frame.unit
    for buffer in unit.program.buffers:
        if buffer.role != "constant" or buffer.alias:
            continue
        value = np.ascontiguousarray(buffer.value, dtype=buffer.dtype)
        if value.size <= BAKED and has_scalars(buffer.dtype):
            frame.pointers[buffer.name] = _bake(frame, buffer, value)
        else:
            position = CONTEXT.constants + len(unit.constants)
            frame.pointers[buffer.name] = load_word(frame.builder, frame.context, position, POINTER)
            unit.constants.append(value)


def _bake(frame: Frame, buffer: Buffer, value: np.ndarray) -> ir.Value:
    """The elements of a small constant as data of the module."""
    kind = memory_type(buffer.dtype)
    items = [int(v) if buffer.dtype.kind == "b" else v for v in value.ravel().tolist()]
    array = ir.ArrayType(kind, len(items))
    data = ir.GlobalVariable(frame.unit.module, array, f"{frame.unit.stem}_{len(frame.unit.module.globals)}")
    data.global_constant, data.linkage, data.align = True, "internal", 64
    data.initializer = ir.Constant(array, [ir.Constant(kind, v) for v in items])
    return frame.builder.bitcast(data, POINTER)


def acquire(frame: ExitFrame, workspace: Workspace) -> ir.Value:
    """Take a block of memory and place everything in it. Where there is none the function ends, with that status."""
    b = frame.builder
    offsets, size = workspace_size(frame, workspace)
    block = b.call(declare(frame.unit.module, "tg_acquire", POINTER, [POINTER, I64]), [frame.context, size])
    missing = b.icmp_unsigned("==", b.ptrtoint(block, I64), i64(0))
    with b.if_then(missing, likely=False):
        b.ret(i64(STATUS.memory))
    place(frame, workspace, block, offsets, workspace.place)
    return block
