"""From a LoopProgram to an Executable: the program's one native function, and its image."""

from __future__ import annotations

import llvmlite.ir as ir

from tracegrad.emit import runtime
from tracegrad.emit.buffers import plan_workspace
from tracegrad.emit.callbacks import HostCall
from tracegrad.emit.captures import walk
from tracegrad.emit.codegen import Stages, compile_module, new_module, symbol_name
from tracegrad.emit.cost import cost
from tracegrad.emit.executable import Executable
from tracegrad.emit.frame import ExitFrame, Frame, HostSite, Unit
from tracegrad.emit.image import Image
from tracegrad.emit.interface import Array, IndexCheck, Interface
from tracegrad.emit.layout import STATUS
from tracegrad.emit.libraries import SET_THREADS, blas_threads, needed
from tracegrad.emit.llvm import (
    I64,
    POINTER,
    VOID,
    declare,
    i64,
    load_word,
    run_once,
    store_word,
)
from tracegrad.emit.memory import acquire, place_constants
from tracegrad.emit.nests import emit_statement
from tracegrad.emit.parallel import emit_nest, may_be_parallel
from tracegrad.emit.reductions import plan_sums
from tracegrad.emit.wrapper import derived_dims
from tracegrad.ir.dims import DimLike
from tracegrad.schedule.loops import Buffer, Call, Declare, Fill, Let, Loop, LoopProgram, Store, Update

SHORT = 20_000  # of the units of `cost`: runs below keep the GIL


def compile_program(program: LoopProgram) -> Executable:
    """Compile `program` to native code. Raises TracegradError for a scalar operation the emitter does not know."""
    stages = Stages()
    with stages.time("runtime"):
        runtime.load()
    with stages.time("emit"):
        stem = f"tg_{symbol_name(program.name)}"
        module = new_module(stem)
        face = interface_of(program)
        unit = Unit(program, module, stem, plan_sums(program.body), face.symbols)
        _define_run(unit)
        derived = derived_dims(face)
        if derived:
            _define_derive(unit, derived)
    library = compile_module(module, stages)
    libraries = needed(module.globals)
    image = Image(
        face,
        stem,
        library.code,
        derived,
        tuple(IndexCheck(c.axis, c.location) for c in unit.checks),
        tuple(map(_host_call, unit.calls)),
        tuple(unit.constants),
        _is_short(program),
        libraries,
        blas_threads() if SET_THREADS in libraries else None,
    )
    return Executable(image, library, stages)


def interface_of(program: LoopProgram) -> Interface:
    """What callers need to know of `program`."""
    names = dict.fromkeys((*program.inputs, *program.outputs))
    arrays = tuple(_array(b) for b in program.buffers if b.name in names)
    return Interface(program.name, arrays, program.inputs, program.outputs, program.sizes)


def _array(buffer: Buffer) -> Array:
    return Array(buffer.name, buffer.dtype, buffer.shape, buffer.alias)


def _host_call(site: HostSite) -> HostCall:
    inputs, outputs = tuple(map(_array, site.inputs)), tuple(map(_array, site.outputs))
    return HostCall(site.call.attrs["function"], inputs, outputs, dict(site.symbols), site.call.location)


def _define_run(unit: Unit) -> None:
    """`i64 run(buffers, table, context, error)`."""
    program = unit.program
    function = ir.Function(unit.module, ir.FunctionType(I64, [POINTER] * 4), f"{unit.stem}_run")
    buffers, table, context, error = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    frame = ExitFrame(unit, b, context, error, table)
    _point_to_arguments(frame, buffers)
    place_constants(frame)
    workspace = plan_workspace(unit)
    body = function.append_basic_block("body")
    b.branch(body)
    b.position_at_end(body)
    block = acquire(frame, workspace) if workspace.slots else None
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
    if _works_elsewhere(program):
        run_once(function)


def _works_elsewhere(program: LoopProgram) -> bool:
    """Whether a run takes long, and all but a little of it in other functions than the program's own."""
    buffers = {b.name: b for b in program.buffers}
    plain = (Let, Store, Declare, Update, Fill, Loop)
    return all(isinstance(s, plain) or (isinstance(s, Call) and s.kernel == "matmul") for s in program.body) and any(
        isinstance(s, Loop) and may_be_parallel(s, buffers) for s in program.body
    )


def _point_to_arguments(frame: Frame, buffers: ir.Value) -> None:
    """Find inputs and outputs. Every input has an argument; an output that stands twice, or is an input, is computed
    once."""
    program = frame.unit.program
    for position, name in enumerate((*program.inputs, *program.outputs)):
        root = frame.unit.root(name)
        if root not in frame.pointers:
            frame.pointers[root] = load_word(frame.builder, buffers, position, POINTER)


def _define_derive(unit: Unit, derived: tuple[DimLike, ...]) -> None:
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
