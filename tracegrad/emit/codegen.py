"""Numba's code generator without its Python front end: an IR module goes in, native functions come out."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import llvmlite.binding as llvm
import llvmlite.ir as ir
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target


class ProgramLibrary(JITCodeLibrary):
    """One of Numba's code libraries (its JIT engine, its object format) with one optimisation pipeline, not three.

    The passes Numba runs before are for reference counts and for code generated from bytecode; ours has neither.
    """

    def _optimize_functions(self, ll_module: object) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization, options.slp_vectorization = True, False
        # Vectorised loops of known extent would be unrolled whole: up to twenty times the code for no speed. Short
        # loops were written out by the scheduler, and interleaving gives the vectoriser its independent chains.
        options.loop_unrolling = False
        builder = llvm.create_pass_builder(self._codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)


class Stages(dict[str, float]):
    """Seconds per stage of a compilation."""

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self[name] = self.get(name, 0.0) + time.perf_counter() - start


def target_codegen() -> JITCPUCodegen:
    """Numba's code generator for this machine."""
    return cpu_target.target_context.codegen()


def new_module(name: str) -> ir.Module:
    """An empty module for this machine."""
    return target_codegen()._create_empty_module(name)


def unique_name(stem: str) -> str:
    """A symbol no other module has, in this process or in one that loads our object code."""
    return f"tg_{''.join(c if c.isalnum() else '_' for c in stem)[:40]}_{uuid.uuid4().hex[:12]}"


def compile_module(module: ir.Module, stages: Stages) -> ProgramLibrary:
    """Optimise, compile and load `module`."""
    with global_compiler_lock:
        library = ProgramLibrary(target_codegen(), module.name)
        with stages.time("parse"):
            library.add_ir_module(module)
        with stages.time("compile"):
            library.finalize()
    return library
