"""The loop-nest vocabulary: what a scheduled program is made of, between the graph and LLVM.

A `LoopProgram` is a list of buffers and a tree of statements. Scalars are named values in SSA form, except
accumulators, which `Declare` starts at the identity of their operation and `Update` changes. `schedule.printer` writes
a program as pseudo-Python, `schedule.verify` checks it, `schedule.evaluate` runs it slowly without the emitter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Location, Node, no_attrs
from tracegrad.ir.index import Affine, Bound, Index
from tracegrad.records import record


@record
class Buffer:
    """A C-contiguous array. Roles: input, output, temp (in the workspace), local (small, private to one iteration of
    the loop it is used in: a row buffer or accumulator array on the stack), constant (has `value`).

    A buffer with `alias` owns no memory: it is the buffer of that name (any role, never an alias itself) seen with
    other dimensions, of the same number of elements in C order. Its own role repeats that of the other."""

    name: str
    dtype: np.dtype
    shape: tuple[DimLike, ...]
    role: str
    value: np.ndarray | None = field(default=None, compare=False)
    alias: str = ""


# ---- scalar expressions -------------------------------------------------------------------------------------------


@record
class Literal:
    value: Any
    dtype: np.dtype


@record
class Name:
    """A scalar defined by Let, or the present value of an accumulator."""

    name: str
    dtype: np.dtype


@record
class Value:
    """An index given by an integer scalar computed before (a gathered index): already non-negative and in range."""

    name: str


@record
class Read:
    """An element of a buffer. Where `when` does not hold nothing is read and the value is `fill`."""

    buffer: str
    index: tuple[Index | Value, ...]
    dtype: np.dtype
    when: tuple[Bound, ...] = ()
    fill: Any = 0


@record
class FromIndex:
    """The value of an index expression, as a number."""

    index: Index
    dtype: np.dtype


@record
class Apply:
    """A scalar operation of the emitter's table; the arguments already have its operand dtype."""

    op: str
    args: tuple[Expr, ...]
    dtype: np.dtype


@record
class Cast:
    """NumPy's astype on one element."""

    arg: Expr
    dtype: np.dtype


@record
class Where:
    """`inside` where every bound holds (and only there evaluated), else `outside`."""

    when: tuple[Bound, ...]
    inside: Expr
    outside: Expr
    dtype: np.dtype


Expr: TypeAlias = Literal | Name | Read | FromIndex | Apply | Cast | Where

# ---- statements ---------------------------------------------------------------------------------------------------


@record
class Let:
    name: str
    value: Expr


@record
class Store:
    buffer: str
    index: tuple[Index | Value, ...]
    value: Expr


@record
class Declare:
    """A scalar accumulator, set to the identity of `combine` (add, multiply, maximum, minimum, logical_and, …)."""

    name: str
    combine: str
    dtype: np.dtype


@record
class Update:
    name: str
    combine: str
    value: Expr


@record
class Fill:
    """Every element of the buffer set to the identity of `combine`: an array accumulator, or zeros (add)."""

    buffer: str
    combine: str


@record
class UpdateAt:
    buffer: str
    index: tuple[Index | Value, ...]
    combine: str
    value: Expr


@record
class Check:
    """`index` (an integer scalar's name) must lie in [-extent, extent): else the program stops with an IndexError
    that names this axis and extent. Defines `name`: `start + step *` the same index made non-negative."""

    name: str
    index: Expr
    extent: DimLike
    axis: int
    start: DimLike = 0
    step: DimLike = 1
    location: Location | None = field(default=None, compare=False)


@record
class Loop:
    """`for var in range(extent)`.

    Kinds: "serial"; "unroll" (constant extent, at most 8); "parallel" (outermost only: iterations are cut into chunks
    whose borders depend on the sizes alone; the accumulators and buffers in `reduced`, declared or filled before the
    loop, get one partial per chunk, combined in order).
    """

    var: str
    extent: DimLike
    body: tuple[Stmt, ...]
    kind: str = "serial"
    reduced: tuple[str, ...] = ()


NUMBERS = ("det", "det_sign", "logabsdet")  # kernels that give one number per matrix
LU_KERNELS = ("solve", "inv", *NUMBERS)  # kernels that factorise a copy of the matrix
MATRICES = (*LU_KERNELS, "solve_triangular", "cholesky", "cholesky_adjoint")
LARGEST = 24  # rows of matrices for which loops of our own are faster than LAPACK


def for_lapack(rows: DimLike) -> bool:
    """Whether matrices of so many rows are LAPACK's; else they are for loops, which have to know the size."""
    return not (isinstance(rows, int) and rows <= LARGEST)


@record
class Call:
    """A library kernel on whole buffers: `matmul`, `cumulative`, `recurrence`, `host` (attrs hold the node to run in
    Python), one of MATRICES on square matrices along the last two axes, or a loop or branch with programs of its own
    (see `Region`)."""

    kernel: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=no_attrs)
    location: Location | None = field(default=None, compare=False)


@record(eq=False)
class Region:
    """What a Call runs for a loop or branch of the graph: the node, and its bodies as programs of their own, whose
    inputs and outputs are those of one step. The Call's kernel is the node's name, its attribute is `region`.

    A scan may have a faster body (`plain`) that is right unless a NaN turns up in one of the outputs `suspects`; then
    the loop has to be run again with the real one. `in_place` has the (input, output) pairs of the call for which the
    bodies overwrite the input; the call may give both the same memory, else the input is copied first. `independent`
    says of a scan whose steps may run in any order how its carries come about (see `schedule.independent`).
    """

    node: Node
    bodies: tuple[LoopProgram, ...]
    plain: LoopProgram | None = None
    suspects: tuple[int, ...] = ()
    in_place: tuple[tuple[int, int], ...] = ()
    independent: tuple[int, ...] | None = None


def region_of(call: Call) -> Region | None:
    """The loop or branch a call stands for; None for other kernels."""
    return region_of_attrs(call.attrs)


def region_of_attrs(attrs: Mapping[str, Any]) -> Region | None:
    region: Region | None = attrs.get("region")
    return region


Stmt: TypeAlias = Let | Store | Declare | Update | Fill | UpdateAt | Check | Loop | Call


@record
class LoopProgram:
    """`inputs` and `outputs` name buffers in the order of the graph's; an output may be an input's name or stand
    twice (the wrapper then returns a copy). `sizes` says where each symbol is found: (input position, axis)."""

    name: str
    buffers: tuple[Buffer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    body: tuple[Stmt, ...]
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=no_attrs)

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.buffers if b.name == name)


def calls_lapack(call: Call, buffers: Mapping[str, Buffer]) -> bool:
    return call.kernel in MATRICES and for_lapack(buffers[call.inputs[0]].shape[-1])


def in_place(program: LoopProgram, position: int, output: int) -> bool:
    """Whether an output of the program lies in the memory of the input at `position`."""
    name = program.outputs[output]
    return (program.buffer(name).alias or name) == program.inputs[position]


__all__ = [
    "Affine", "Apply", "Bound", "Buffer", "Call", "Cast", "Check", "Declare", "Expr", "Fill", "FromIndex", "Index",
    "Let", "Literal", "Loop", "LoopProgram", "Name", "Read", "Region", "Stmt", "Store", "Update", "UpdateAt", "Value",
    "Where", "in_place", "region_of", "region_of_attrs",
]  # fmt: skip
