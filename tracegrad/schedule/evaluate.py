"""A slow evaluator of LoopPrograms in plain Python, so that scheduling is tested apart from emission.

Scalars are NumPy scalars; scalar operations come from a table of NumPy functions; kernels run with NumPy.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import TracegradError
from tracegrad.ir.dims import evaluate as evaluate_dim
from tracegrad.ir.index import Affine, Bound, Index, Quotient
from tracegrad.ir.interpret import run_host
from tracegrad.ir.threefry import threefry
from tracegrad.schedule.identity import identity
from tracegrad.schedule.loops import (
    MATRICES,
    Apply,
    Call,
    Cast,
    Check,
    Declare,
    Expr,
    Fill,
    FromIndex,
    Let,
    Literal,
    Loop,
    LoopProgram,
    Name,
    Read,
    Region,
    Stmt,
    Store,
    Update,
    UpdateAt,
    Value,
    Where,
    region_of,
)


def _zero_multiply(g: Any, slope: Any) -> Any:
    """Multiplication in which an exact zero on the left wins against infinity and NaN."""
    return np.where(g == 0, g, g * slope)


def _special(name: str) -> Callable[..., Any] | None:
    return getattr(importlib.import_module("scipy.special"), name, None)


_OTHER_NAMES = {"abs": np.absolute, "zero_multiply": _zero_multiply, "random_bits": threefry}


def _matrices(kernel: str, inputs: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> Any:
    if attrs.get("transposed"):
        inputs = np.swapaxes(inputs[0], -1, -2), inputs[1]
    if kernel == "solve_triangular":
        a, b = inputs
        t = np.tril(a) if attrs["lower"] else np.triu(a)
        if attrs["unit"]:
            t = np.where(np.eye(t.shape[-1], dtype=bool), 1, t)
        return np.linalg.solve(t, b)
    if kernel in ("logabsdet", "det_sign"):
        return np.linalg.slogdet(inputs[0])[kernel == "logabsdet"]
    return getattr(np.linalg, kernel)(*inputs)


def _recurrence(inputs: Sequence[np.ndarray], axis: int, reverse: bool) -> np.ndarray:
    a, b = inputs
    out = b.copy()
    factors, rows = (np.moveaxis(np.flip(x, axis) if reverse else x, axis, 0) for x in (a, out))
    for i in range(1, len(rows)):
        rows[i, ...] += np.where(rows[i - 1] == 0, 0, factors[i] * rows[i - 1])
    return out


def evaluate(
    program: LoopProgram, args: Sequence[Any], functions: Mapping[str, Callable[..., Any]] | None = None
) -> tuple[np.ndarray, ...]:
    """The outputs for one array per input. `functions` adds scalar operations that NumPy lacks. Raises IndexError
    for a gathered index out of range."""
    with np.errstate(all="ignore"):
        return _run(program, args, functions or {}, {})


def _run(
    program: LoopProgram, args: Sequence[Any], functions: Mapping[str, Callable[..., Any]], sizes: Mapping[str, int]
) -> tuple[np.ndarray, ...]:
    machine = _Machine(program, args, functions, sizes)
    machine.run(program.body)
    return tuple(machine.arrays[name].copy() for name in program.outputs)


class _Machine:
    def __init__(
        self, program: LoopProgram, args: Sequence[Any], functions: Mapping[str, Callable[..., Any]],
        sizes: Mapping[str, int],
    ):  # fmt: skip
        self.functions = functions
        self.loops: dict[str, int] = {}
        self.scalars: dict[str, Any] = {}
        self.sizes = {**sizes} | {s: int(np.shape(args[p])[axis]) for s, (p, axis) in program.sizes.items()}
        self.arrays: dict[str, np.ndarray] = {}
        inputs = dict(zip(program.inputs, args, strict=True))
        for b in program.buffers:
            shape = tuple(self.dim(d) for d in b.shape)
            if b.alias:
                continue
            if b.role == "input":
                self.arrays[b.name] = np.array(inputs[b.name], b.dtype).reshape(shape)
            elif b.value is not None:
                self.arrays[b.name] = np.asarray(b.value)
            else:  # garbage, so that reading what nobody wrote shows
                self.arrays[b.name] = np.full(shape, 77, b.dtype) if b.dtype.kind != "b" else np.ones(shape, bool)
        for b in program.buffers:
            if b.alias:
                self.arrays[b.name] = self.arrays[b.alias].reshape(tuple(self.dim(d) for d in b.shape))

    def dim(self, dim: Any) -> int:
        return evaluate_dim(dim, self.sizes)

    def run(self, statements: Sequence[Stmt]) -> None:
        for s in statements:
            self.statement(s)

    def statement(self, s: Stmt) -> None:
        match s:
            case Let(name, value):
                self.scalars[name] = self.expr(value)
            case Store(buffer, index, value):
                self.arrays[buffer][self.index(index)] = self.expr(value)
            case Declare(name, combine, dtype):
                self.scalars[name] = dtype.type(identity(combine, dtype))
            case Update(name, combine, value):
                self.scalars[name] = self.apply(combine, self.scalars[name], self.expr(value))
            case Fill(buffer, combine):
                self.arrays[buffer][...] = identity(combine, self.arrays[buffer].dtype)
            case UpdateAt(buffer, index, combine, value):
                at = self.index(index)
                self.arrays[buffer][at] = self.apply(combine, self.arrays[buffer][at], self.expr(value))
            case Check(name, index, extent, axis, start, step):
                position = self.check(int(self.expr(index)), self.dim(extent), axis)
                self.scalars[name] = self.dim(start) + self.dim(step) * position
            case Loop(var, extent, body, _, _):
                for k in range(self.dim(extent)):
                    self.loops[var] = k
                    self.run(body)
            case Call():
                self.call(s)

    def check(self, index: int, extent: int, axis: int) -> int:
        if not -extent <= index < extent:
            raise IndexError(f"index {index} is out of bounds for axis {axis} with size {extent}")
        return index % extent

    def call(self, s: Call) -> None:
        inputs = [self.arrays[name] for name in s.inputs]
        results: Sequence[np.ndarray]
        if s.kernel == "matmul":
            a, b = (
                np.swapaxes(x, -1, -2) if s.attrs.get(key) else x
                for x, key in zip(inputs, ("a_transposed", "b_transposed"), strict=True)
            )
            results = (np.matmul(a, b),)
        elif s.kernel == "cumulative":
            out = self.arrays[s.outputs[0]]
            ufunc = getattr(np, s.attrs["combine"])
            x, axis = inputs[0].astype(out.dtype), s.attrs["axis"]
            if s.attrs.get("reverse"):
                results = (np.flip(ufunc.accumulate(np.flip(x, axis), axis=axis), axis),)
            else:
                results = (ufunc.accumulate(x, axis=axis),)
        elif s.kernel == "recurrence":
            results = (_recurrence(inputs, s.attrs["axis"], s.attrs["reverse"]),)
        elif (region := region_of(s)) is not None:
            results = self.region(region, inputs)
        elif s.kernel in MATRICES:
            results = (_matrices(s.kernel, inputs, s.attrs),)
        elif s.kernel == "host":
            results = run_host(s.attrs["function"], inputs, self.sizes)
        else:
            raise TracegradError(f"the evaluator has no kernel {s.kernel!r}")
        for name, value in zip(s.outputs, results, strict=True):
            self.arrays[name][...] = value

    def region(self, region: Region, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """A loop or branch: the node's own meaning, with its bodies run by the evaluator."""
        node = region.node
        sizes = node.op.inner_sizes(node, inputs, self.sizes)

        def runner(body: LoopProgram) -> Callable[..., tuple[np.ndarray, ...]]:
            return lambda args: _run(body, args, self.functions, sizes)

        return tuple(node.op.run(node, inputs, [runner(b) for b in region.bodies], sizes))

    def apply(self, op: str, *args: Any) -> Any:
        function: Any = self.functions.get(op) or _OTHER_NAMES.get(op) or getattr(np, op, None) or _special(op)
        if function is None:
            raise TracegradError(f"the evaluator has no scalar operation {op!r}")
        result = function(*args)
        return result[()] if isinstance(result, np.ndarray) else result

    # ---- expressions ----------------------------------------------------------------------------------------------

    def expr(self, e: Expr) -> Any:
        match e:
            case Literal(value, dtype):
                return dtype.type(value)
            case Name(name, _):
                return self.scalars[name]
            case Read(buffer, index, dtype, when, fill):
                return self.arrays[buffer][self.index(index)] if self.holds(when) else dtype.type(fill)
            case FromIndex(index, dtype):
                return dtype.type(self.position(index))
            case Apply(op, args, dtype):
                return dtype.type(self.apply(op, *map(self.expr, args)))
            case Cast(arg, dtype):
                return np.asarray(self.expr(arg)).astype(dtype)[()]
            case Where(when, inside, outside, _):
                return self.expr(inside) if self.holds(when) else self.expr(outside)
        raise TypeError(f"not an expression: {e!r}")

    def index(self, index: Sequence[Index | Value]) -> tuple[int, ...]:
        found = tuple(int(self.scalars[i.name]) if isinstance(i, Value) else self.position(i) for i in index)
        if any(i < 0 for i in found):
            raise TracegradError(f"a scheduled program read index {found}")
        return found

    def position(self, index: Index) -> int:
        if isinstance(index, Quotient):
            return self.affine(index.affine) // index.divisor
        return self.affine(index)

    def affine(self, affine: Affine) -> int:
        return self.dim(affine.offset) + sum(self.dim(c) * self.loops[name] for name, c in affine.terms)

    def holds(self, when: Sequence[Bound]) -> bool:
        return all(self.bound(b) for b in when)

    def bound(self, b: Bound) -> bool:
        value = self.affine(b.affine)
        if b.relation == "%":
            return value % b.modulus == 0
        return value == 0 if b.relation == "==" else value >= 0
