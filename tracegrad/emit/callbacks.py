"""The Python functions that a compiled program calls while it runs (`host` has the code around such a call).

One C callback serves all programs. It takes the GIL, hands copies of the input buffers to the function and copies the
returned arrays into the output buffers. An exception stops the program; `take_exception` gives it back to the thread it
happened in, to be raised again with its traceback.

The function gets copies because it may keep what it is given, while the buffers die with the call.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.emit.interface import Array
from tracegrad.emit.layout import STATUS
from tracegrad.errors import TracegradError
from tracegrad.ir.dims import evaluate
from tracegrad.ir.graph import Location
from tracegrad.ir.interpret import run_host
from tracegrad.records import record

_raised = threading.local()
_programs: weakref.WeakValueDictionary[int, HostCalls] = weakref.WeakValueDictionary()


@record(eq=False)
class HostCall:
    """One place where a program calls Python: the buffers it passes and fills, and where the sizes' symbols stand."""

    function: Callable[..., Any]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    symbols: Mapping[str, int]
    location: Location | None

    def run(self, pointers: ctypes.Array, table: ctypes.Array) -> None:
        sizes = {name: table[position] for name, position in self.symbols.items()}
        arrays = [_view(a, pointers[k], sizes) for k, a in enumerate((*self.inputs, *self.outputs))]
        inputs, outputs = arrays[: len(self.inputs)], arrays[len(self.inputs) :]
        results = run_host(self.function, [a.copy() for a in inputs], sizes)
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
        name = getattr(self.function, "__qualname__", repr(self.function))
        fix = "a function called from compiled code must return the shapes and dtypes it returned while it was traced"
        return TracegradError(f"{name} {what}", fix=fix, location=self.location)


class HostCalls:
    """The host calls of one program, as the callback needs them."""

    def __init__(self, calls: Sequence[HostCall]):
        self.calls = tuple(calls)
        self.key = id(self)
        _programs[self.key] = self


def _view(array: Array, address: int | None, sizes: Mapping[str, int]) -> np.ndarray:
    """A buffer's memory as an ndarray, valid during the call."""
    shape = tuple(evaluate(d, sizes) for d in array.shape)
    size = int(np.prod(shape, dtype=np.int64)) * array.dtype.itemsize
    if size == 0 or address is None:
        return np.empty(shape, array.dtype)
    memory = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(memory, dtype=array.dtype).reshape(shape)


@ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64)
)
def _callback(key: int, number: int, pointers: ctypes.Array, table: ctypes.Array) -> int:
    try:
        _programs[key].calls[number].run(pointers, table)
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
