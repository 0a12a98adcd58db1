"""The libraries that compiled programs call, made known to the linker by name: object code never holds an address."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable

import llvmlite.binding as llvm

BLAS = ("gemm", "gemv", "dot", "symm", "trsm", "trsv")
LAPACK = ("getrf", "potrf")
ROUTINES = tuple(f"tg_{kind}{routine}" for kind in "sd" for routine in (*BLAS, *LAPACK))
SET_THREADS = "tg_blas_set_threads"


@functools.cache
def register_blas() -> None:
    """Make SciPy's BLAS and LAPACK known as `tg_dgemm` and so on."""
    from scipy.linalg import cython_blas, cython_lapack

    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    for symbol in ROUTINES:
        home = cython_lapack if symbol.endswith(LAPACK) else cython_blas
        capsule = home.__pyx_capi__[symbol.removeprefix("tg_")]
        llvm.add_symbol(symbol, pointer(capsule, name(capsule)))


@functools.cache
def blas_threads() -> int | None:
    """How many threads SciPy's BLAS uses; None if it cannot be told to use another number."""
    import scipy.linalg.cython_blas as cython_blas

    library = ctypes.CDLL(cython_blas.__file__)
    try:
        change, get = library.openblas_set_num_threads_local, library.scipy_openblas_get_num_threads
    except AttributeError:
        return None
    llvm.add_symbol(SET_THREADS, ctypes.cast(change, ctypes.c_void_p).value)
    return int(get())


def needed(symbols: Iterable[str]) -> tuple[str, ...]:
    """Those of the symbols a module declares that are found here."""
    return tuple(s for s in symbols if s in ROUTINES or s == SET_THREADS)
