"""From a LoopProgram to an Executable: the program's one native function, and the object Python holds."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit import runtime
from tracegrad.emit.buffers import Workspace, place, plan_workspace, workspace_size
from tracegrad.emit.captures import walk
from tracegrad.emit.codegen import Library, Stages, compile_module, new_module, symbol_name
from tracegrad.emit.cost import cost
from tracegrad.emit.frame import Frame, Unit
from tracegrad.emit.host import HostCalls, callback_address
from tracegrad.emit.layout import CONTEXT, STATUS
from tracegrad.emit.llvm import (
    I64,
    POINTER,
    VOID,
    alloca,
    declare,
    has_scalars,
    i64,
    load_word,
    memory_type,
    store_word,
)
from tracegrad.emit.nests import emit_statement
from tracegrad.emit.parallel import emit_nest
from tracegrad.emit.reductions import plan_sums
from tracegrad.emit.wrapper import Explain, Fail, derived_dims, make_caller, specification
from tracegrad.ir.dims import DimLike
from tracegrad.schedule.loops import Buffer, Call, Loop, LoopProgram

SHORT = 20_000  # of the units of `cost`: runs below keep the GIL
BAKED = 64  # constants of at most this many elements are part of the code


class _RunFrame(Frame):
    """The outermost function, which gives its workspace back however it ends."""

    def __init__(self, unit: Unit, builder: ir.IRBuilder, *args: ir.Value):
        super().__init__(unit, builder, *args)
        self.status = alloca(builder, I64)
        self.exit = builder.function.append_basic_block("exit")

    def stop(self, status: ir.Value) -> None:
        self.builder.store(status, self.status)
        self.builder.branch(self.exit)


def compile_program(program: LoopProgram) -> Executable:
    """Compile `program` to native code. Raises TracegradError for a scalar operation the emitter does not know."""
    stages = Stages()
    with stages.time("runtime"):
        runtime.load()
    with stages.time("emit"):
        stem = f"tg_{symbol_name(program.name)}"
        module = new_module(stem)
        unit = Unit(program, module, stem, plan_sums(program.body), _symbol_positions(program))
        constants = _define_run(unit)
        derived = derived_dims(program, unit.symbols)
        if derived:
            _define_derive(unit, derived)
    library = compile_module(module, stages)
    return Executable(program, unit, library, constants, derived, stages)


def _symbol_positions(program: LoopProgram) -> dict[str, int]:
    return {name: position for position, name in enumerate(program.sizes)}


def _define_run(unit: Unit) -> list[np.ndarray]:
    """`i64 run(buffers, table, context, error)`. The result is the constants its context must hold."""
    program = unit.program
    function = ir.Function(unit.module, ir.FunctionType(I64, [POINTER] * 4), f"{unit.stem}_run")
    buffers, table, context, error = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    frame = _RunFrame(unit, b, context, error, table)
    constants = _point_to_arguments(frame, buffers)
    workspace = plan_workspace(unit)
    body = function.append_basic_block("body")
    b.branch(body)
    b.position_at_end(body)
    block = _acquire(frame, workspace) if workspace.slots else None
    b.store(i64(STATUS.ok), frame.status)
    for statement in program.body:
        if isinstance(statement, Loop):
            emit_nest(frame, statement)
        else:
            emit_statement(frame, statement)
    b.branch(frame.exit)
    b.position_at_end(frame.exit)
    if block is not None:
        b.call(declare(unit.module, "tg_release", VOID, [POINTER, POINTER]), [context, block])
    b.ret(b.load(frame.status, typ=I64))
    return constants


def _point_to_arguments(frame: Frame, buffers: ir.Value) -> list[np.ndarray]:
    """Find inputs, outputs and constants. Every input has an argument; an output that stands twice, or is an input,
    is computed once."""
    b, program = frame.builder, frame.unit.program
    for position, name in enumerate((*program.inputs, *program.outputs)):
        root = frame.unit.root(name)
        if root not in frame.pointers:
            frame.pointers[root] = load_word(b, buffers, position, POINTER)
    constants: list[np.ndarray] = []
    for buffer in program.buffers:
        if buffer.role != "constant" or buffer.alias:
            continue
        value = np.ascontiguousarray(buffer.value, dtype=buffer.dtype)
        if value.size <= BAKED and has_scalars(buffer.dtype):
            frame.pointers[buffer.name] = _bake(frame, buffer, value)
        else:
            frame.pointers[buffer.name] = load_word(b, frame.context, CONTEXT.constants + len(constants), POINTER)
            constants.append(value)
    return constants


def _bake(frame: Frame, buffer: Buffer, value: np.ndarray) -> ir.Value:
    """The elements of a small constant as data of the module."""
    kind = memory_type(buffer.dtype)
    items = [int(v) if buffer.dtype.kind == "b" else v for v in value.ravel().tolist()]
    array = ir.ArrayType(kind, len(items))
    data = ir.GlobalVariable(frame.unit.module, array, f"{frame.unit.stem}_{len(frame.unit.module.globals)}")
    data.global_constant, data.linkage, data.align = True, "internal", 64
    data.initializer = ir.Constant(array, [ir.Constant(kind, v) for v in items])
    return frame.builder.bitcast(data, POINTER)


def _acquire(frame: _RunFrame, workspace: Workspace) -> ir.Value:
    """Take a block of memory and place everything in it."""
    b = frame.builder
    offsets, size = workspace_size(frame, workspace)
    acquire = declare(frame.unit.module, "tg_acquire", POINTER, [POINTER, I64])
    block = b.call(acquire, [frame.context, size])
    missing = b.icmp_unsigned("==", b.ptrtoint(block, I64), i64(0))
    with b.if_then(missing, likely=False):
        b.ret(i64(STATUS.memory))
    place(frame, workspace, block, offsets, workspace.place)
    return block


def _define_derive(unit: Unit, derived: list[DimLike]) -> None:
    """`void derive(table)`: what follows from the symbols, behind them in the table of sizes."""
    function = ir.Function(unit.module, ir.FunctionType(VOID, [POINTER]), f"{unit.stem}_derive")
    (table,) = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    frame = Frame(unit, b, table, table, table)
    for position, dim in enumerate(derived):
        store_word(b, frame.sizes.value(dim), table, len(unit.symbols) + position)
    b.ret_void()


def _is_short(program: LoopProgram) -> bool:
    """Whether a run takes so few microseconds that letting other threads in would cost more than it gains them."""
    work = cost(program.body, {b.name: b for b in program.buffers})
    calls = any(isinstance(s, Call) for s in walk(program.body))
    return isinstance(work, int) and work < SHORT and not calls


class _Context(np.ndarray):
    """The words of a program's context, with the objects they point to (`keep`)."""

    keep: list[Any]


class Executable:
    """A compiled program.

    `call(*arrays)` is the fastest way to run it: a builtin function that takes exactly conforming ndarrays and returns
    a tuple of new ones. It raises TypeError or ValueError for arrays of another number, dtype, ndim, layout or shape,
    IndexError where a Check fails, and whatever a host call raises. Calling the Executable does the same.
    `stages` holds the seconds each stage of compilation took.
    """

    def __init__(
        self, program: LoopProgram, unit: Unit, library: Library, constants: list[np.ndarray],
        derived: list[DimLike], stages: Stages,
    ):  # fmt: skip
        self.program, self.stages = program, stages
        self._library, self._stem = library, unit.stem
        self._checks = tuple(unit.checks)
        self._run = library.address(f"{unit.stem}_run")
        self._host = HostCalls(unit.calls, unit.buffers, unit.symbols) if unit.calls else None
        words = np.zeros(CONTEXT.constants + len(constants), np.int64)
        context = words.view(_Context)
        spec = specification(program, unit.symbols, derived)
        explain, fail = Explain(program), Fail(program, self._checks)
        context.keep = [library, constants, spec, explain, fail, self._host]
        context[CONTEXT.pool] = runtime.pool_address()
        context[CONTEXT.run] = self._run
        context[CONTEXT.dims] = library.address(f"{unit.stem}_derive") if derived else 0
        context[CONTEXT.spec] = spec.ctypes.data
        context[CONTEXT.explain], context[CONTEXT.fail] = id(explain), id(fail)
        context[CONTEXT.release_gil] = not _is_short(program)
        context[CONTEXT.host] = callback_address()
        context[CONTEXT.key] = 0 if self._host is None else self._host.key
        context[CONTEXT.array_type] = id(np.ndarray)
        for position, value in enumerate(constants):
            context[CONTEXT.constants + position] = value.ctypes.data
        self._context = context
        weakref.finalize(context, runtime.free_workspace, words).atexit = False  # daemon threads may still be running
        self.call: Callable[..., tuple[np.ndarray, ...]] = make_caller(runtime.load().call, context, program.name)

    def __call__(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return self.call(*arrays)

    @functools.cached_property
    def entry(self) -> Any:
        """The program as a Numba function (nogil) of inputs then outputs, for use in `@njit` code."""
        from tracegrad.emit.entry import make_entry

        return make_entry(self.program, self._run, self._context)

    def llvm(self) -> str:
        """The optimised LLVM IR."""
        return self._library.llvm()

    def asm(self) -> str:
        """The assembly of this machine."""
        return self._library.asm()

    def __repr__(self) -> str:
        return f"<Executable {self.program.name}: {len(self.program.inputs)} in, {len(self.program.outputs)} out>"
