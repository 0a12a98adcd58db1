"""What a loop costs, in units of roughly one vectorised arithmetic operation on one element (a tenth of a nanosecond).

The estimate is a dimension, so that it is a number where sizes are known and an expression the program evaluates where
they are not. It decides about threads and the width of loops only; a factor of two either way does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracegrad.emit.captures import expressions
from tracegrad.ir.dims import DimLike, product, substitute
from tracegrad.schedule.loops import (
    MATRICES,
    Apply,
    Buffer,
    Call,
    Check,
    Fill,
    Loop,
    Read,
    Stmt,
    Store,
    UpdateAt,
    region_of,
)

_CHEAP = {
    "add", "subtract", "multiply", "negative", "positive", "absolute", "square", "maximum", "minimum", "fmax", "fmin",
    "where", "zero_multiply", "clip", "copysign", "sign",
}  # fmt: skip
_MEDIUM = {"divide", "reciprocal", "sqrt", "floor", "ceil", "trunc", "rint", "deg2rad", "rad2deg"}
LONG = 256  # iterations from which on a loop may work on several vectors at a time
_DIVISION, _APART = 6, 80
UNKNOWN = 1000  # steps of a loop that runs until a condition holds
_SCALAR = {"remainder", "floor_divide", "fmod"}  # not vectorised


def cost(body: Sequence[Stmt], buffers: dict[str, Buffer]) -> DimLike:
    """The cost of running `body` once."""
    total: DimLike = 0
    for statement in body:
        if isinstance(statement, Loop):
            total = total + statement.extent * (cost(statement.body, buffers) + 1)
        elif isinstance(statement, Fill):
            total = total + product(buffers[statement.buffer].shape)
        elif isinstance(statement, Call) and (region := region_of(statement)) is not None:
            steps = region.node.attrs.get("length", UNKNOWN if statement.kernel == "while" else 1)
            inside = [cost(body.body, {b.name: b for b in body.buffers}) + 1 for body in region.bodies]
            work = steps * sum(inside, start=0)
            name = region.node.attrs.get("symbol")  # it has a meaning inside only
            total = total + (work if name is None else substitute(work, {name: UNKNOWN}))
        elif isinstance(statement, Call) and statement.kernel in MATRICES:
            total = total + 4 * product((*buffers[statement.inputs[0]].shape, buffers[statement.inputs[-1]].shape[-1]))
        elif isinstance(statement, Call):
            total = total + sum((product(buffers[n].shape) for n in statement.outputs), start=0)
        else:
            total = total + (4 if isinstance(statement, (Store, UpdateAt)) else 1)
            total = total + sum(_weight(e) for e in expressions(statement))
    return total


def interleaving(loop: Loop, buffers: dict[str, Buffer]) -> int:
    """How many vectors a loop should work on at a time; 1 leaves it to LLVM.

    LLVM counts registers and takes one vector where a body needs many, but the polynomials and divisions of elementary
    functions are long chains in which each operation waits for the one before; several chains beside each other cost
    loads of constants instead and are up to twice as fast.
    """
    plain = not any(isinstance(s, (Loop, Call, Check)) for s in loop.body)
    if not plain or (isinstance(loop.extent, int) and loop.extent < LONG):
        return 1
    weights = [_weight(e) for s in loop.body for e in expressions(s) if isinstance(e, Apply)]
    if not _DIVISION <= max(weights, default=0) < _APART:
        return 1
    work = cost(loop.body, buffers)
    return 4 if work <= 300 else 2 if work <= 600 else 1


def _weight(e: object) -> int:
    if isinstance(e, Read):
        return 3
    if not isinstance(e, Apply):
        return 0
    if e.op in _CHEAP or e.dtype.kind == "b":
        return 1
    return _DIVISION if e.op in _MEDIUM else _APART if e.op in _SCALAR or e.op == "random_bits" else 15
