"""Linear systems, inverses, determinants and Cholesky factors of small matrices, as loops.

In the body of a loop a call into Python costs more than a small matrix does. Gaussian elimination with partial pivoting
and the Cholesky factor row by row: Golub & Van Loan, Matrix Computations, algorithms 3.4.1 and 4.2.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.blas import batch_index
from tracegrad.emit.cholesky import mirror, reverse_columns
from tracegrad.emit.frame import Frame
from tracegrad.emit.layout import STATUS
from tracegrad.emit.llvm import ELEMENTWISE, I64, POINTER, alloca, counted_loop, element, i64, intrinsic, value_type
from tracegrad.emit.scalars import apply
from tracegrad.ir.dims import product
from tracegrad.schedule.loops import MATRICES, Call

SINGULAR, NOT_POSITIVE = 1, 2  # what a kernel says of a matrix it cannot do


def emit_matrices(frame: Frame, call: Call) -> None:
    """`out = kernel(a)` or `kernel(a, b)` for each matrix; leading axes broadcast. attrs of solve_triangular: lower,
    unit."""
    b = frame.builder
    out = frame.unit.buffers[call.outputs[0]]
    operands = [frame.unit.buffers[name] for name in call.inputs]
    n, numbers = int(operands[0].shape[-1]), call.kernel in ("det", "logabsdet", "det_sign")
    batch = out.shape if numbers else out.shape[:-2]
    columns = i64(1) if numbers else frame.sizes.value(out.shape[-1])
    function = _define(frame, call, out.dtype, n)
    kind = value_type(out.dtype)
    pointers = [frame.pointer(name) for name in (*call.inputs, *call.outputs)]
    shapes = [*(x.shape[:-2] for x in operands), batch]
    sizes = [*(x.shape[-2:] for x in operands), () if numbers else out.shape[-2:]]
    with counted_loop(b, i64(0), frame.sizes.value(product(batch)), name="matrix") as position:
        where = []
        for pointer, shape, size in zip(pointers, shapes, sizes, strict=True):
            which = batch_index(frame, position, batch, shape)
            where.append(element(b, pointer, b.mul(which, frame.sizes.value(product(size))), kind))
        fault = b.call(function, [*where, columns])
        frame.stop_unless(b.icmp_signed("==", fault, i64(0)), STATUS.linalg, i64(0), fault, i64(0))


def _define(frame: Frame, call: Call, dtype: np.dtype, n: int) -> ir.Function:
    """`kernel(a, (b,) out, columns)` for one matrix: 0, or what is wrong with it."""
    count = len(call.inputs) + 1
    function = frame.unit.function(call.kernel, I64, [POINTER] * count + [I64])
    for argument in function.args[:-1]:
        argument.add_attribute("noalias")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    kernel = _Kernel(b, dtype, n, function.args[-1])
    _KERNELS[call.kernel](kernel, *function.args[:-1], **call.attrs)
    b.ret(i64(0))
    return function


class _Kernel:
    """The code of one function on n × n matrices, whose right-hand sides have some number of columns."""

    def __init__(self, builder: ir.IRBuilder, dtype: np.dtype, n: int, columns: ir.Value):
        self.b, self.dtype, self.kind, self.n, self.columns = builder, dtype, value_type(dtype), i64(n), columns
        self.size = n

    # ---- elements

    def at(self, matrix: ir.Value, i: ir.Value, j: ir.Value, columns: ir.Value | None = None) -> ir.Value:
        b = self.b
        return element(b, matrix, b.add(b.mul(i, self.n if columns is None else columns), j), self.kind)

    def get(self, matrix: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
        return self.b.load(self.at(matrix, i, j), typ=self.kind)

    def number(self, value: float) -> ir.Constant:
        return ir.Constant(self.kind, float(value))

    def less(self, place: ir.Value, factor: ir.Value, other: ir.Value) -> None:
        """place -= factor * other"""
        b = self.b
        product = b.fmul(factor, other, flags=ELEMENTWISE)
        b.store(b.fsub(b.load(place, typ=self.kind), product, flags=ELEMENTWISE), place)

    @contextmanager
    def down(self, end: ir.Value) -> Iterator[ir.Value]:
        """Positions from end - 1 to 0."""
        with counted_loop(self.b, i64(0), end, name="down") as t:
            yield self.b.sub(self.b.sub(end, i64(1)), t)

    def fail(self, condition: ir.Value, fault: int) -> None:
        with self.b.if_then(condition, likely=False):
            self.b.ret(i64(fault))

    def copy(self, target: ir.Value, source: ir.Value, columns: ir.Value) -> None:
        b = self.b
        with counted_loop(b, i64(0), b.mul(self.n, columns), name="copy") as k:
            b.store(b.load(element(b, source, k, self.kind), typ=self.kind), element(b, target, k, self.kind))

    def copied(self, a: ir.Value) -> ir.Value:
        own = alloca(self.b, self.kind, max(1, self.size * self.size), align=64)
        self.copy(own, a, self.n)
        return own

    # ---- elimination

    def eliminate(
        self, u: ir.Value, x: ir.Value | None, sign: ir.Value | None, zero: Callable[[ir.Value], None]
    ) -> None:
        """Make the matrix u upper triangular by operations on rows, which x undergoes too; `sign` changes with every
        exchange of rows. `zero` gets the condition that there is no pivot."""
        b, kind = self.b, self.kind
        best, place = alloca(b, kind), alloca(b, I64)
        with counted_loop(b, i64(0), self.n, name="k") as k:
            b.store(intrinsic(b, "llvm.fabs", self.get(u, k, k)), best)
            b.store(k, place)
            with counted_loop(b, b.add(k, i64(1)), self.n, name="i") as i:
                size = intrinsic(b, "llvm.fabs", self.get(u, i, k))
                with b.if_then(b.fcmp_ordered(">", size, b.load(best, typ=kind))):
                    b.store(size, best)
                    b.store(i, place)
            p = b.load(place, typ=I64)
            with b.if_then(b.icmp_signed("!=", p, k)):
                self._exchange(u, k, p, self.n)
                if x is not None:
                    self._exchange(x, k, p, self.columns)
                if sign is not None:
                    b.store(b.fneg(b.load(sign, typ=kind)), sign)
            pivot = self.get(u, k, k)
            zero(b.fcmp_ordered("==", pivot, self.number(0)))
            with counted_loop(b, b.add(k, i64(1)), self.n, name="i") as i:
                factor = b.fdiv(self.get(u, i, k), pivot)
                with counted_loop(b, b.add(k, i64(1)), self.n, name="j") as j:
                    self.less(self.at(u, i, j), factor, self.get(u, k, j))
                if x is not None:
                    self._subtract_row(x, i, k, factor)

    def _exchange(self, matrix: ir.Value, i: ir.Value, k: ir.Value, columns: ir.Value) -> None:
        b = self.b
        with counted_loop(b, i64(0), columns, name="j") as j:
            first, second = self.at(matrix, i, j, columns), self.at(matrix, k, j, columns)
            one, other = b.load(first, typ=self.kind), b.load(second, typ=self.kind)
            b.store(other, first)
            b.store(one, second)

    def _subtract_row(self, x: ir.Value, i: ir.Value, k: ir.Value, factor: ir.Value) -> None:
        """x[i] -= factor * x[k]"""
        b = self.b
        with counted_loop(b, i64(0), self.columns, name="j") as j:
            other = b.load(self.at(x, k, j, self.columns), typ=self.kind)
            self.less(self.at(x, i, j, self.columns), factor, other)

    def substitute(self, t: ir.Value, x: ir.Value, lower: bool, unit: bool) -> None:
        """x = t⁻¹ x for a triangular t."""
        b = self.b
        with counted_loop(b, i64(0), self.n, name="k") if lower else self.down(self.n) as k:
            if not unit:
                pivot = self.get(t, k, k)
                with counted_loop(b, i64(0), self.columns, name="j") as j:
                    place = self.at(x, k, j, self.columns)
                    b.store(b.fdiv(b.load(place, typ=self.kind), pivot), place)
            begin, end = (b.add(k, i64(1)), self.n) if lower else (i64(0), k)
            with counted_loop(b, begin, end, name="i") as i:
                self._subtract_row(x, i, k, self.get(t, i, k))

    # ---- kernels

    def singular(self, condition: ir.Value) -> None:
        self.fail(condition, SINGULAR)

    def solve(self, a: ir.Value, right: ir.Value, out: ir.Value) -> None:
        u = self.copied(a)
        self.copy(out, right, self.columns)
        self.eliminate(u, out, None, self.singular)
        self.substitute(u, out, lower=False, unit=False)

    def inv(self, a: ir.Value, out: ir.Value) -> None:
        b, u = self.b, self.copied(a)
        with counted_loop(b, i64(0), self.n, name="i") as i, counted_loop(b, i64(0), self.n, name="j") as j:
            b.store(b.select(b.icmp_signed("==", i, j), self.number(1), self.number(0)), self.at(out, i, j))
        self.eliminate(u, out, None, self.singular)
        self.substitute(u, out, lower=False, unit=False)

    def solve_triangular(self, a: ir.Value, right: ir.Value, out: ir.Value, lower: bool, unit: bool) -> None:
        b = self.b
        if not unit:
            with counted_loop(b, i64(0), self.n, name="k") as k:
                self.singular(b.fcmp_ordered("==", self.get(a, k, k), self.number(0)))
        self.copy(out, right, self.columns)
        self.substitute(a, out, lower, unit)

    def det(self, a: ir.Value, out: ir.Value) -> None:
        b = self.b

        def zero(condition: ir.Value) -> None:
            with b.if_then(condition):
                b.store(self.number(0), out)
                b.ret(i64(0))

        self._over_pivots(a, out, 1.0, zero, lambda total, pivot: b.fmul(total, pivot))

    def det_sign(self, a: ir.Value, out: ir.Value) -> None:
        b = self.b

        def zero(condition: ir.Value) -> None:
            with b.if_then(condition):
                b.store(self.number(0), out)
                b.ret(i64(0))

        def times_sign(total: ir.Value, pivot: ir.Value) -> ir.Value:
            return b.fmul(total, apply(b, "sign", [pivot], self.dtype, self.dtype))

        self._over_pivots(a, out, 1.0, zero, times_sign)

    def logabsdet(self, a: ir.Value, out: ir.Value) -> None:
        b = self.b

        def zero(condition: ir.Value) -> None:
            with b.if_then(condition):
                b.store(self.number(-np.inf), out)
                b.ret(i64(0))

        def plus_log(total: ir.Value, pivot: ir.Value) -> ir.Value:
            return b.fadd(total, apply(b, "log", [intrinsic(b, "llvm.fabs", pivot)], self.dtype, self.dtype))

        self._over_pivots(a, out, 0.0, zero, plus_log)

    def _over_pivots(
        self, a: ir.Value, out: ir.Value, start: float, zero: Callable[[ir.Value], None],
        step: Callable[[ir.Value, ir.Value], ir.Value],
    ) -> None:  # fmt: skip
        b, u, total = self.b, self.copied(a), alloca(self.b, self.kind)
        b.store(self.number(start), total)
        self.eliminate(u, None, total if start == 1.0 else None, zero)
        with counted_loop(b, i64(0), self.n, name="k") as k:
            b.store(step(b.load(total, typ=self.kind), self.get(u, k, k)), total)
        b.store(b.load(total, typ=self.kind), out)

    def cholesky(self, a: ir.Value, out: ir.Value) -> None:
        b, total = self.b, alloca(self.b, self.kind)
        with counted_loop(b, i64(0), self.n, name="i") as i:
            with counted_loop(b, i64(0), b.add(i, i64(1)), name="j") as j:
                b.store(self.get(a, i, j), total)
                with counted_loop(b, i64(0), j, name="k") as k:
                    self.less(total, self.get(out, i, k), self.get(out, j, k))
                rest = b.load(total, typ=self.kind)
                with b.if_else(b.icmp_signed("==", i, j)) as (diagonal, below):
                    with diagonal:
                        self.fail(b.fcmp_ordered("<=", rest, self.number(0)), NOT_POSITIVE)
                        b.store(intrinsic(b, "llvm.sqrt", rest), self.at(out, i, i))
                    with below:
                        b.store(b.fdiv(rest, self.get(out, j, j)), self.at(out, i, j))
            with counted_loop(b, b.add(i, i64(1)), self.n, name="j") as j:
                b.store(self.number(0), self.at(out, i, j))

    def cholesky_adjoint(self, factor: ir.Value, g: ir.Value, out: ir.Value) -> None:
        self.copy(out, g, self.n)
        reverse_columns(self.b, self.dtype, self.n, factor, out, i64(0), self.n)
        mirror(self.b, self.dtype, self.n, out)


_KERNELS: dict[str, Callable[..., None]] = {name: getattr(_Kernel, name) for name in MATRICES}
