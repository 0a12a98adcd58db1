"""LLVM without a front end: an IR module goes in, object code comes out, and object code becomes native functions.

Everything is done by llvmlite. Numba's code generator does the same with the same library, but importing Numba takes
longer than compiling a program; of it we use the thread pool (`runtime`), and what `@njit` functions call (`entry`).
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
from llvmlite.binding.module import ModuleRef

from tracegrad.records import record

if TYPE_CHECKING:
    import llvmlite.ir as ir

_lock = threading.RLock()


class Stages(dict[str, float]):
    """Seconds per stage of a compilation."""

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self[name] = self.get(name, 0.0) + time.perf_counter() - start


@record
class Machine:
    """The processor programs are compiled for: this one."""

    triple: str
    cpu: str
    features: str

    def target(self, level: int = 3) -> llvm.TargetMachine:
        """A new LLVM target machine. `level` is that of code generation."""
        return self._create(cpu=self.cpu, features=self.features, opt=level)

    def loader(self) -> llvm.TargetMachine:
        """One for an engine, which takes it and only loads code: reading the processor's features takes longer."""
        return self._create()

    def _create(self, **options: Any) -> llvm.TargetMachine:
        target = llvm.Target.from_triple(self.triple)
        reloc = "static" if self.triple.startswith(("x86", "i386", "i686")) else "default"
        return target.create_target_machine(reloc=reloc, codemodel="jitdefault", jit=True, **options)


@functools.cache
def machine() -> Machine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM cannot tell on this system
        features = ""
    return Machine(llvm.get_process_triple(), llvm.get_host_cpu_name(), features)


@functools.cache
def _target() -> llvm.TargetMachine:
    """The target machine that optimises and writes object code."""
    return machine().target()


@functools.cache
def _layout() -> str:
    return str(_target().target_data)


class Library:
    """Native functions, loaded from object code. They live as long as the library does."""

    def __init__(self, code: bytes, optimised: ModuleRef | None = None):
        self.code, self._optimised = code, optimised
        with _lock:
            empty = llvm.parse_assembly("")
            self._engine = llvm.create_mcjit_compiler(empty, machine().loader())
            self._engine.remove_module(empty)  # it would be compiled, at the price of a small program
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where the function `name` starts; 0 if there is none."""
        with _lock:
            address: int = self._engine.get_function_address(name)
        return address

    def llvm(self) -> str:
        """The optimised IR. Raises ValueError for a library that was loaded from the disk."""
        return str(self._module())

    def asm(self) -> str:
        """The assembly. Raises ValueError for a library that was loaded from the disk."""
        with _lock:
            return _target().emit_assembly(self._module())

    def _module(self) -> ModuleRef:
        if self._optimised is None:
            raise ValueError("only object code is known of this library")
        return self._optimised


def new_module(name: str) -> ir.Module:
    """An empty module for this machine."""
    import llvmlite.ir as ir

    module = ir.Module(name)
    module.triple, module.data_layout = machine().triple, _layout()
    return module


def unique_name(stem: str) -> str:
    """A symbol no other module has, in this process or in another one."""
    return f"tg_{symbol_name(stem)}_{os.urandom(6).hex()}"


def symbol_name(name: str) -> str:
    """What a symbol may be called after a function of that name."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)[:40]


def compile_module(module: ir.Module, stages: Stages) -> Library:
    """Optimise, compile and load `module`."""
    with _lock:
        with stages.time("parse"):
            optimised = _parse(str(module), module.name)
        with stages.time("compile"):
            _optimise(optimised)
            return Library(_target().emit_object(optimised), optimised)


def compile_quickly(text: str, name: str) -> Library:
    """Compile and load IR that is run once per call of a program: leaving optimisation out makes it a tenth slower, and
    compiling it ten times faster. The text need not name the machine."""
    with _lock:
        module = _parse(text, name)
        module.triple, module.data_layout = machine().triple, _layout()
        return Library(machine().target(0).emit_object(module), module)


def _parse(text: str, name: str) -> ModuleRef:
    module = llvm.parse_assembly(text)
    module.name = name
    module.verify()
    return module


def _optimise(module: ModuleRef) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization, options.slp_vectorization = True, False
    # Vectorised loops of known extent would be unrolled whole: up to twenty times the code for no speed. Short loops
    # were written out by the scheduler, and interleaving gives the vectoriser its independent chains.
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(_target(), options)
    builder.getModulePassManager().run(module, builder)
