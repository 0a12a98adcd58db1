"""The native part that all compiled programs share, in this process.

Four functions, which `shared` writes as IR and `shared.ll` holds: `tg_call`, the function behind `Executable.call`: it
checks its arguments, makes the outputs and runs the program with no Python in between; `tg_acquire` and `tg_release`,
which hand out a program's workspace; `tg_parallel`, which runs the chunks of a parallel loop on Numba's thread pool.

A program has a *context*: a block of 64-bit words that holds what its code must not contain, so that object code stays
valid in another process. `tg_call` finds it as the data of its `self`, an ndarray.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from types import SimpleNamespace

import llvmlite.binding as llvm
import numpy as np

from tracegrad import cache
from tracegrad.emit.codegen import Library, compile_quickly
from tracegrad.emit.layout import CONTEXT, OBJECTS, POOL, SLOTS

SHARED = os.path.join(os.path.dirname(__file__), "shared.ll")

_FUNCTIONS = ("call", "acquire", "release", "parallel")
_pool_state = (ctypes.c_int64 * 4)()
_lock = threading.Lock()


def load() -> SimpleNamespace:
    """Make the shared functions known to the linker by name. Attributes: their addresses."""
    with _lock:  # a second library would take the place of the first, and its code with it
        return _load()


def load_beside() -> None:
    """Begin `load` in a thread if it has to compile: LLVM works without the GIL, so that is done while a function is
    recorded. Whoever calls `load` waits for it, and meets the error there is."""

    def quietly() -> None:
        with contextlib.suppress(Exception):
            load()

    if not _load.cache_info().currsize and not _lock.locked() and cache.read(cache.key("runtime")) is None:
        with contextlib.suppress(RuntimeError):  # the interpreter is ending, or there are no threads
            threading.Thread(target=quietly, name="tracegrad-runtime").start()


@functools.cache
def _load() -> SimpleNamespace:
    _register_numpy()
    key = cache.key("runtime")
    code = cache.read(key)
    if code is None:
        library = compile_quickly(_shared_text(), "runtime")
        cache.write(key, library.code)
    else:
        library = Library(code)
    addresses = {name: library.address(name) for name in _FUNCTIONS}
    for name, address in addresses.items():
        llvm.add_symbol(f"tg_{name}", address)
    return SimpleNamespace(library=library, **addresses)


def _shared_text() -> str:
    """The IR of the shared functions, as it was written out where objects look as they do here; else made anew."""
    with contextlib.suppress(OSError), open(SHARED, encoding="utf-8") as file:
        text = file.read()
        if text.startswith(OBJECTS):
            return text
    from tracegrad.emit.shared import shared_text

    return shared_text()


def _register_numpy() -> None:
    """A name for the function of NumPy's C API the caller uses; its slot in the table never changes."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(get(np._core._multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    llvm.add_symbol("tg_PyArray_New", table[93])


def free_workspace(context: np.ndarray) -> None:
    """Give a program's free list back to the system. No call of the program may be running."""
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    for slot in range(CONTEXT.slots, CONTEXT.slots + SLOTS):
        block, context[slot] = int(context[slot]), 0
        if block:
            free(ctypes.c_void_p.from_address(block - 8))


# ---- threads ------------------------------------------------------------------------------------------------------


@ctypes.CFUNCTYPE(None)
def _launch() -> None:
    """Open the pool, on the first parallel loop that runs. Without a usable one loops run serially from then on."""
    from tracegrad.emit.pool import open_pool

    pool = open_pool()
    if _pool_state[POOL.state]:
        return
    if pool is not None:
        _pool_state[POOL.parallel_for], _pool_state[POOL.get_num_threads] = pool
    _pool_state[POOL.state] = -1 if pool is None else 1


def _after_fork() -> None:
    """A forked child has none of the pool's threads, and GNU OpenMP kills a child that enters it: run serially."""
    _pool_state[POOL.state] = -1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
_pool_state[POOL.launch] = ctypes.cast(_launch, ctypes.c_void_p).value


def pool_address() -> int:
    """The words a context points to for its parallel loops."""
    return ctypes.addressof(_pool_state)
