"""Host calls: Python functions in the middle of a compiled program.

One C callback serves all programs. It takes the GIL, hands copies of the input buffers to the function and copies the
returned arrays into the output buffers. An exception stops the program; `take_exception` gives it back to the thread it
happened in, to be raised again with its traceback.

The function gets copies because it may keep what it is given, while the buffers die with the call.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracegrad.emit.frame import Frame
from tracegrad.emit.layout import CONTEXT, STATUS
from tracegrad.emit.llvm import I64, POINTER, alloca, call_pointer, i64, load_word, store_word
from tracegrad.errors import TracegradError
from tracegrad.ir.dims import evaluate
from tracegrad.schedule.loops import Buffer, Call

_raised = threading.local()
_programs: weakref.WeakValueDictionary[int, HostCalls] = weakref.WeakValueDictionary()


def emit_host(frame: Frame, call: Call) -> None:
    """Call back into Python. attrs: `function`, from one ndarray per input to a tuple of one per output (or to one)."""
    b = frame.builder
    number = len(frame.unit.calls)
    frame.unit.calls.append(call)
    names = (*call.inputs, *call.outputs)
    pointers = alloca(b, POINTER, max(1, len(names)))
    for position, name in enumerate(names):
        store_word(b, frame.pointer(name), pointers, position)
    callback = load_word(b, frame.context, CONTEXT.host, POINTER)
    key = load_word(b, frame.context, CONTEXT.key)
    status = call_pointer(b, callback, I64, [key, i64(number), pointers, frame.table])
    with b.if_then(b.icmp_signed("!=", status, i64(0)), likely=False):
        frame.stop(status)


class HostCalls:
    """The host calls of one program, as the callback needs them."""

    def __init__(self, calls: list[Call], buffers: Mapping[str, Buffer], symbols: Mapping[str, int]):
        self.calls = [_HostCall(c, [buffers[n] for n in c.inputs], [buffers[n] for n in c.outputs]) for c in calls]
        self.symbols = dict(symbols)
        self.key = id(self)
        _programs[self.key] = self


@dataclass(frozen=True)
class _HostCall:
    call: Call
    inputs: list[Buffer]
    outputs: list[Buffer]

    def run(self, pointers: ctypes.Array, sizes: Mapping[str, int]) -> None:
        arrays = [_view(b, pointers[k], sizes) for k, b in enumerate((*self.inputs, *self.outputs))]
        inputs, outputs = arrays[: len(self.inputs)], arrays[len(self.inputs) :]
        results = self.call.attrs["function"](*(a.copy() for a in inputs))
        if not isinstance(results, tuple):
            results = (results,)
        if len(results) != len(outputs):
            raise self._wrong(f"returned {len(results)} arrays where {len(outputs)} are needed")
        for position, (result, target) in enumerate(zip(results, outputs)):
            array = np.asarray(result)
            if array.shape != target.shape or array.dtype != target.dtype:
                found, needed = f"{array.dtype}{list(array.shape)}", f"{target.dtype}{list(target.shape)}"
                raise self._wrong(f"result {position} is {found} where {needed} was traced")
            target[...] = array

    def _wrong(self, what: str) -> TracegradError:
        function = self.call.attrs["function"]
        name = getattr(function, "__qualname__", repr(function))
        fix = "a function called from compiled code must return the shapes and dtypes it returned while it was traced"
        return TracegradError(f"{name} {what}", fix=fix, location=self.call.location)


def _view(buffer: Buffer, address: int | None, sizes: Mapping[str, int]) -> np.ndarray:
    """The buffer's memory as an ndarray, valid during the call."""
    shape = tuple(evaluate(d, sizes) for d in buffer.shape)
    size = int(np.prod(shape, dtype=np.int64)) * buffer.dtype.itemsize
    if size == 0 or address is None:
        return np.empty(shape, buffer.dtype)
    memory = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(memory, dtype=buffer.dtype).reshape(shape)


@ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64)
)
def _callback(key: int, number: int, pointers: ctypes.Array, table: ctypes.Array) -> int:
    try:
        program = _programs[key]
        sizes = {name: table[position] for name, position in program.symbols.items()}
        program.calls[number].run(pointers, sizes)
        return STATUS.ok
    except BaseException as error:
        _raised.error = error
        return STATUS.host


def callback_address() -> int:
    return ctypes.cast(_callback, ctypes.c_void_p).value


def take_exception() -> BaseException:
    """The exception that stopped a program in this thread."""
    error = _raised.error
    del _raised.error
    return error
