"""Numba's thread pool, opened without Numba where possible: importing Numba takes longer than compiling a program,
and what it does besides, for processes of `multiprocessing`, takes as long as a small program.

The pool is a C extension of its own (one for each of Numba's threading layers), whose state belongs to the process and
not to the module. Numba finds it open if it is imported later, and `numba.set_num_threads` rules our loops as well.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

_FOLDER = "np/ufunc"
# What Numba reads its choice of a pool from.
_SETTINGS = ("NUMBA_THREADING_LAYER", "NUMBA_THREADING_LAYER_PRIORITY", "NUMBA_NUM_THREADS")
_SETTINGS_FILE = ".numba_config.yaml"
# How often a thread of GNU's OpenMP looks for work before it sleeps, and what else it reads that from, as it is loaded.
# Its own choice is to look for milliseconds, which on a machine with other work takes the core from the thread that is
# waited for; these tens of microseconds are about what it costs to wake one.
_PATIENCE, _PATIENCE_SETTINGS = "1000", ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
_PRIORITY = ["tbb", "omp", "workqueue"]  # of pools, unless somebody changes it


class Pool(NamedTuple):
    """Addresses of the pool's functions."""

    parallel_for: int
    get_num_threads: int


def open_pool() -> Pool | None:
    """The pool Numba would choose; None if there is none that several threads may enter at once."""
    with _patience():
        library = None if _chosen_otherwise() else _openmp()
        if library is None:
            return _by_numba()
    ctypes.CFUNCTYPE(None, ctypes.c_int)(library.launch_threads)(_processors())
    return Pool(library.parallel_for, library.get_num_threads)


@contextmanager
def _patience() -> Iterator[None]:
    """In it an OpenMP that is loaded has threads that soon sleep, unless the environment has a wish of its own."""
    if any(s in os.environ for s in _PATIENCE_SETTINGS):
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = _PATIENCE
    try:
        yield
    finally:
        os.environ.pop("GOMP_SPINCOUNT", None)


def _chosen_otherwise() -> bool:
    """Whether Numba has opened a pool, or was told which one to open."""
    numba = sys.modules.get("numba")
    if numba is not None:
        config, parallel = numba.config, sys.modules.get("numba.np.ufunc.parallel")
        if getattr(parallel, "_is_initialized", True) or _processors() != config.NUMBA_NUM_THREADS:
            return True
        if config.THREADING_LAYER != "default" or config.THREADING_LAYER_PRIORITY != _PRIORITY:
            return True
    return any(s in os.environ for s in _SETTINGS) or os.path.exists(_SETTINGS_FILE)


def _by_numba() -> Pool | None:
    from numba.np.ufunc import parallel

    try:
        parallel._launch_threads()
    except Exception:
        return None
    if parallel._threading_layer == "workqueue":  # aborts when two threads enter it at once
        return None
    import llvmlite.binding as llvm

    return Pool(llvm.address_of_symbol("numba_parallel_for"), llvm.address_of_symbol("get_num_threads"))


def _openmp() -> ModuleType | None:
    """Numba's OpenMP layer, unless it cannot be loaded, or the TBB layer can, which Numba prefers."""
    numba = importlib.util.find_spec("numba")
    folders = [str(Path(f) / _FOLDER) for f in (numba and numba.submodule_search_locations) or ()]
    return None if _extension("tbbpool", folders) else _extension("omppool", folders)


def _extension(name: str, folders: list[str]) -> ModuleType | None:
    """An extension of Numba's, loaded without its package."""
    spec = PathFinder.find_spec(f"numba.np.ufunc.{name}", folders)
    if spec is None or spec.loader is None:
        return None
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError:
        return None
    return module


def _processors() -> int:
    """How many threads Numba would start."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)
