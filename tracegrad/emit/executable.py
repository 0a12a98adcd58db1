"""The object Python holds of a compiled program."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.emit import runtime
from tracegrad.emit.callbacks import HostCalls, callback_address
from tracegrad.emit.codegen import Library, Stages
from tracegrad.emit.image import Image
from tracegrad.emit.layout import CONTEXT
from tracegrad.emit.libraries import SET_THREADS, blas_threads, register_blas
from tracegrad.emit.wrapper import Explain, Fail, make_caller, specification


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

    def __init__(self, image: Image, library: Library, stages: Stages):
        self.image, self.stages = image, stages
        self._library = library
        face = image.interface
        self._run = library.address(f"{image.prefix}_run")
        host = HostCalls(image.calls) if image.calls else None
        words = np.zeros(CONTEXT.constants + len(image.constants), np.int64)
        context = words.view(_Context)
        spec = specification(face, image.derived)
        explain, fail = Explain(face), Fail(face, image.checks)
        context.keep = [library, image.constants, spec, explain, fail, host]
        context[CONTEXT.pool] = runtime.pool_address()
        context[CONTEXT.run] = self._run
        context[CONTEXT.dims] = library.address(f"{image.prefix}_derive") if image.derived else 0
        context[CONTEXT.spec] = spec.ctypes.data
        context[CONTEXT.explain], context[CONTEXT.fail] = id(explain), id(fail)
        context[CONTEXT.release_gil] = not image.short
        context[CONTEXT.host] = callback_address()
        context[CONTEXT.key] = 0 if host is None else host.key
        context[CONTEXT.array_type] = id(np.ndarray)
        for position, value in enumerate(image.constants):
            context[CONTEXT.constants + position] = value.ctypes.data
        self._context = context
        weakref.finalize(context, runtime.free_workspace, words).atexit = False  # daemon threads may still be running
        self.call: Callable[..., tuple[np.ndarray, ...]] = make_caller(runtime.load().call, context, face.name)

    def __call__(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return self.call(*arrays)

    @functools.cached_property
    def entry(self) -> Any:
        """The program as a Numba function (nogil) of inputs then outputs, for use in `@njit` code."""
        from tracegrad.emit.entry import make_entry

        return make_entry(self.image.interface, self._run, self._context)

    def llvm(self) -> str:
        """The optimised LLVM IR. Raises ValueError for a program that was loaded from the disk."""
        return self._library.llvm()

    def asm(self) -> str:
        """The assembly of this machine. Raises ValueError for a program that was loaded from the disk."""
        return self._library.asm()

    def __repr__(self) -> str:
        face = self.image.interface
        return f"<Executable {face.name}: {len(face.inputs)} in, {len(face.outputs)} out>"


def load_image(image: Image) -> Executable | None:
    """The program of an image that another process has made; None where a library it calls is set up differently."""
    stages = Stages()
    with stages.time("runtime"):
        runtime.load()
    with stages.time("load"):
        if image.libraries:
            register_blas()
        if SET_THREADS in image.libraries and blas_threads() != image.threads:
            return None
        return Executable(image, Library(image.code), stages)
