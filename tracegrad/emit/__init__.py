"""Code generation: a `schedule.loops.LoopProgram` becomes a compiled program.

LLVM IR is built, optimised and compiled by llvmlite; of Numba only the thread pool is used (`runtime`), and `entry`.
`runtime` is the small native part all programs share (the caller that Python sees, workspace, thread pool);
`program` drives the rest: `buffers` plans memory, `nests` turns statements into IR with `scalars`, `casts`,
`reductions`, `ranges` and `parallel`, and `blas`, `cumulative` and `host` are the library calls.

Importing this package is cheap; llvmlite is imported by the first compilation, Numba by the first parallel loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracegrad.emit.executable import Executable
    from tracegrad.schedule.loops import LoopProgram


def compile_program(program: LoopProgram) -> Executable:
    """Compile `program`. The result is called with one ndarray per input and returns a tuple of ndarrays."""
    from tracegrad.emit.program import compile_program

    return compile_program(program)


__all__ = ["compile_program"]
