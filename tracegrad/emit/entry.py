"""A program as a Numba function, for callers that are compiled with `@njit` themselves.

It reaches the program's native code by address, so that Numba links a few instructions into the caller instead of the
whole program. It is made on first use; Python callers never need it.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from tracegrad.emit.codegen import unique_name
from tracegrad.emit.interface import Interface
from tracegrad.emit.layout import CONTEXT, ERROR
from tracegrad.emit.llvm import I32, I64, POINTER, VOID, alloca, declare, i64, load_word, store_word
from tracegrad.emit.sizes import Sizes


def make_entry(program: Interface, run: int, context: np.ndarray) -> Any:
    """The function of (inputs…, outputs…), all C-contiguous ndarrays; outputs are written and must not overlap others.

    Raises ValueError where a shape is not the program's; where the program fails, what `Executable.call` raises.
    """
    stem = unique_name(program.name)
    llvm.add_symbol(f"{stem}_run_address", run)
    llvm.add_symbol(f"{stem}_context", context.ctypes.data)
    arrays = [_array_type(program, name) for name in program.inputs]
    arrays += [_array_type(program, name) for name in program.outputs]
    names = [f"a{k}" for k in range(len(arrays))]
    body = _make_intrinsic(program, stem)
    scope: dict[str, Any] = {"program": body}
    comma = "," if len(names) == 1 else ""
    exec(f"def entry({', '.join(names)}):\n    program(({', '.join(names)}{comma}))\n", scope)
    entry = numba.njit(types.void(*arrays), nogil=True)(scope["entry"])
    entry.context = context  # the program lives as long as its entry
    return entry


def _array_type(program: Interface, name: str) -> types.Array:
    buffer = program.buffer(name)
    return types.Array(numba.from_dtype(buffer.dtype), len(buffer.shape), "C")


def _make_intrinsic(program: Interface, stem: str) -> Any:
    @intrinsic
    def call_program(typing_context: Any, arrays: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            kinds = signature.args[0]
            values = cgutils.unpack_tuple(builder, args[0])
            structs = [context.make_array(k)(context, builder, v) for k, v in zip(kinds, values)]
            _emit(context, builder, program, stem, structs)
            return context.get_dummy_value()

        return types.void(arrays), generate

    return call_program


def _emit(context: Any, builder: ir.IRBuilder, program: Interface, stem: str, structs: list[Any]) -> None:
    shapes = [cgutils.unpack_tuple(builder, s.shape) if s._fe_type.ndim else [] for s in structs]
    table = alloca(builder, I64, max(1, len(program.sizes)))
    for position, (argument, axis) in enumerate(program.sizes.values()):
        store_word(builder, shapes[argument][axis], table, position)
    sizes = Sizes(builder, table, program.symbols, in_entry_block=False)
    for name, shape in zip((*program.inputs, *program.outputs), shapes):
        for dim, size in zip(program.buffer(name).shape, shape):
            wrong = builder.icmp_signed("!=", size, sizes.value(dim))
            with builder.if_then(wrong, likely=False):
                text = f"an array passed for {name} of {program.name} has not the shape of the program"
                context.call_conv.return_user_exc(builder, ValueError, (text,))
    buffers = alloca(builder, POINTER, max(1, len(structs)))
    for position, struct in enumerate(structs):
        store_word(builder, builder.bitcast(struct.data, POINTER), buffers, position)
    error = alloca(builder, I64, ERROR.words)
    store_word(builder, i64(0), error, ERROR.shared)
    words = builder.bitcast(declare(builder.module, f"{stem}_context", VOID, []), POINTER)
    run = declare(builder.module, f"{stem}_run_address", I64, [POINTER] * 4)
    status = builder.call(run, [buffers, table, words, error])
    with builder.if_then(builder.icmp_signed("!=", status, i64(0)), likely=False):
        store_word(builder, status, error, ERROR.status)
        _set_exception(context, builder, words, error)


def _set_exception(context: Any, builder: ir.IRBuilder, words: ir.Value, error: ir.Value) -> None:
    """Let the program's own handler raise, with the GIL, and return as after a failed call of Python's API."""
    module = builder.module
    state = builder.call(declare(module, "PyGILState_Ensure", I32, []), [])
    record = builder.call(declare(module, "PyLong_FromVoidPtr", POINTER, [POINTER]), [error])
    handler = load_word(builder, words, CONTEXT.fail, POINTER)
    call = declare(module, "PyObject_CallOneArg", POINTER, [POINTER, POINTER])
    builder.call(call, [handler, record])
    builder.call(declare(module, "PyGILState_Release", VOID, [I32]), [state])
    context.call_conv.return_exc(builder)
