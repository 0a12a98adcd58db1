"""The workspace: one block of memory per call for everything that is neither input nor output nor on the stack.

Each thing that needs memory is alive from its first use to its last among the program's outermost statements; things
that are never alive together share a slot. Slot sizes may be symbolic, so offsets are computed by the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import TypeAlias

import llvmlite.ir as ir

from tracegrad.emit.frame import Frame, Unit
from tracegrad.emit.llvm import I8, element, i64, maximum
from tracegrad.emit.nests import is_stack
from tracegrad.emit.parallel import MAX_CHUNKS, may_be_parallel, reduced_buffers
from tracegrad.emit.scratch import scratch_key, scratch_size
from tracegrad.ir.dims import DimLike, product
from tracegrad.records import record
from tracegrad.schedule.loops import Buffer, Call, Loop, Stmt

ALIGNMENT = 64
Key: TypeAlias = "str | tuple[int, str]"  # a buffer's name, or (identity of a loop, name of its array accumulator)


@record(frozen=False)
class Slot:
    """Memory that several things use one after the other: as large as the largest of them."""

    sizes: list[DimLike] = field(default_factory=list)
    free_after: int = -1


@record(frozen=False)
class Workspace:
    """Which slot each thing lies in."""

    slots: list[Slot] = field(default_factory=list)
    place: dict[Key, int] = field(default_factory=dict)

    def add(self, key: Key, size: DimLike, first: int, last: int) -> None:
        """Give `key` a slot for statements `first` to `last`: the free one that fits best, else a new one."""
        free = [k for k, slot in enumerate(self.slots) if slot.free_after < first]
        index = min(free, key=lambda k: _misfit(self.slots[k], size), default=None)
        if index is None or (_misfit(self.slots[index], size) == float("inf")):
            index = len(self.slots)
            self.slots.append(Slot())
        slot = self.slots[index]
        if size not in slot.sizes:
            slot.sizes.append(size)
        slot.free_after = last
        self.place[key] = index


def _misfit(slot: Slot, size: DimLike) -> float:
    """How badly a thing of `size` fits into a slot; infinite where sizes cannot be compared."""
    if size in slot.sizes:
        return 0.0
    if isinstance(size, int) and all(isinstance(s, int) for s in slot.sizes):
        return abs(size - max(s for s in slot.sizes if isinstance(s, int))) + 1.0
    return float("inf")


def plan_workspace(unit: Unit, on_stack: Callable[[Buffer], bool] = lambda buffer: False) -> Workspace:
    """Slots for temporaries, for partial arrays of parallel loops, for local buffers too large for the stack and for
    the scratch memory of loops and branches. `on_stack` says which temporaries need none."""
    buffers = unit.buffers
    lives: dict[Key, tuple[DimLike, int, int]] = {}
    for position, statement in enumerate(unit.program.body):
        for name in dict.fromkeys(unit.root(n) for n in unit.captures(statement).buffers):
            buffer = buffers[name]
            if (buffer.role == "temp" and not on_stack(buffer)) or (buffer.role == "local" and not is_stack(buffer)):
                copies = MAX_CHUNKS if buffer.role == "local" and _parallel(statement, buffers) else 1
                _, first, _ = lives.get(name, (0, position, position))
                lives[name] = _bytes(buffer) * copies, first, position
        if isinstance(statement, Call) and (scratch := scratch_size(unit, statement)) != 0:
            lives[scratch_key(statement)] = scratch, position, position
        if _parallel(statement, buffers):
            for name in reduced_buffers(buffers, statement):
                lives[id(statement), name] = _bytes(buffers[name]) * (MAX_CHUNKS - 1), position, position
    workspace = Workspace()
    for key, (size, first, last) in sorted(lives.items(), key=lambda item: item[1][1]):
        workspace.add(key, size, first, last)
    return workspace


def _parallel(statement: Stmt, buffers: dict[str, Buffer]) -> bool:
    return isinstance(statement, Loop) and may_be_parallel(statement, buffers)


def _bytes(buffer: Buffer) -> DimLike:
    return product(buffer.shape) * buffer.dtype.itemsize


def workspace_size(frame: Frame, workspace: Workspace) -> tuple[list[ir.Value], ir.Value]:
    """The offset of each slot, and the size of the whole, in bytes."""
    b = frame.builder
    offsets: list[ir.Value] = []
    total: ir.Value = i64(0)
    for slot in workspace.slots:
        offsets.append(total)
        sizes = [d for d in slot.sizes if not isinstance(d, int)]
        fixed = [d for d in slot.sizes if isinstance(d, int)]
        if not sizes and isinstance(total, ir.Constant):
            total = i64(total.constant + _round_up(max(fixed)))
            continue
        size = frame.sizes.value(sizes[0]) if sizes else i64(max(fixed))
        for other in [*sizes[1:], *([max(fixed)] if fixed else [])]:
            size = maximum(b, size, frame.sizes.value(other))
        rounded = b.and_(b.add(size, i64(ALIGNMENT - 1)), i64(-ALIGNMENT))
        total = b.add(total, rounded)
    return offsets, total


def _round_up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def place(frame: Frame, workspace: Workspace, block: ir.Value, offsets: list[ir.Value], keys: Iterable[Key]) -> None:
    """Point the frame's names to their memory."""
    for key in keys:
        pointer = element(frame.builder, block, offsets[workspace.place[key]], I8)
        if isinstance(key, str):
            frame.pointers[key] = pointer
        else:
            frame.partials[key] = pointer
