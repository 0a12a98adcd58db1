"""The loop meanings an operation can have. An operation names one of them in its attribute `lower`.

An operation without one (`lower = None`), or whose dtypes the emitter does not know (complex, float16), still runs in
compiled programs: as a call back into its own NumPy `forward`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tracegrad.ir.index import Piece
from tracegrad.ir.types import Type
from tracegrad.records import record


def default_compute_dtype(inputs: tuple[Type, ...], output: Type) -> np.dtype:
    """The dtype operands are cast to: the result's, or for predicates the operands' common one.

    A Python integer beside integers may be one that their dtype does not hold: such predicates compute in 64 bits.
    """
    if output.dtype.kind != "b" or all(t.dtype.kind == "b" for t in inputs):
        return output.dtype
    strong = [t.dtype for t in inputs if not t.weak]
    if strong and all(t.dtype.kind in "iu" for t in inputs) and any(t.weak for t in inputs):
        strong.append(np.dtype(np.int64) if np.uint64 not in strong else np.dtype(np.uint64))
    weak = [t.dtype.type(0).item() for t in inputs if t.weak]
    return np.result_type(*strong, *weak)


@record
class Elementwise:
    """`out[p] = scalar(in0[p], in1[p], …)` with NumPy's broadcasting; `scalar` names an entry of the emitter's table.

    Operands are cast to `compute_dtype(input types, output type)` first; for `where` the first operand stays bool.
    """

    scalar: str
    compute_dtype: Callable[[tuple[Type, ...], Type], np.dtype] = default_compute_dtype


@record
class Reduction:
    """`out[p] = combine over r of in[p, r]`; attrs hold `axis` (a sorted tuple of non-negative ints) and `keepdims`.

    `combine` is one of add, multiply, maximum, minimum (both propagate NaN), logical_and, logical_or, and argmax or
    argmin (first position along the one axis; NaN wins). Operands are cast to the output's dtype first (for argmax
    and argmin they stay, for the logical ones they become bool).
    """

    combine: str


@record
class IndexMap:
    """Every output element is an element of some input, or `fill`.

    `pieces(index, input types, output type, **attrs)` receives one Affine per output dimension and returns the Pieces
    in order of precedence; where no piece applies the element is the attribute `fill` (default 0). `ascending`: where
    the bounds of one piece hold, so do those of all after it, so that the piece is found by bisection.
    """

    pieces: Callable[..., tuple[Piece, ...]]
    ascending: bool = False


@record
class Reshape:
    """Same elements in C order, other dimensions."""


@record
class Gather:
    """`out[i…, r…] = in0[in1[i…], …, inK[i…], r…]`: K integer arrays of one shape index the first K axes.

    Negative indices count from the end; one out of range is NumPy's IndexError.
    """


@record
class ScatterAdd:
    """The transpose of Gather: zeros of the attribute `shape`, then `out[in1[i…], …, inK[i…], r…] += in0[i…, r…]`."""


@record
class Write:
    """in0 with the elements of a region replaced by those of in1, or increased by them (attribute `add`).

    The region has `start[a] + step[a] * j` on axis `a`. The integer array in{k+2} chooses from its first `extents[k]`
    places on axis `axes[k]`, all of one shape. in1 has the dimensions of the index arrays, then those of the other
    axes, in order.
    """


@record
class Iota:
    """`out[i] = start + step * i` along the attribute `axis`; attrs `start` and `step` are numbers."""


@record
class Constant:
    """The attribute `value`, an ndarray; 0-d constants become literals."""


@record
class Library:
    """A kernel of the emitter, called on whole buffers of one dtype: `matmul` (BLAS), `cumulative` (attrs `combine`,
    `axis`, `reverse`) or `recurrence` (attrs `axis`, `reverse`)."""

    kernel: str


@record
class Matrices:
    """A kernel of the emitter on square matrices along the last two axes (float32 or float64); matrices of other dtypes
    are calls back into `forward`. It may raise LinAlgError, so it stays where it is."""

    kernel: str


Lowering: TypeAlias = (
    Elementwise | Reduction | IndexMap | Reshape | Gather | ScatterAdd | Write | Iota | Constant | Library | Matrices
)
