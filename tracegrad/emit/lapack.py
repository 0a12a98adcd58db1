"""Linear systems, inverses, determinants and Cholesky factors of larger matrices: LAPACK and BLAS by symbol.

Both are column-major, so a row-major matrix is its transpose to them, and row-major right-hand sides x = t⁻¹ b are
systems xᵀ tᵀ = bᵀ. Their columns are cut into chunks for the thread pool, whose borders depend on the sizes alone; all
else runs on one thread: the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.blas import batch_index
from tracegrad.emit.cholesky import reverse_blocks
from tracegrad.emit.frame import Frame
from tracegrad.emit.gemm import ALIGN, GRAIN, power_of_two
from tracegrad.emit.lapack_calls import call_routine, letter, number
from tracegrad.emit.layout import STATUS
from tracegrad.emit.libraries import blas_threads, register_blas
from tracegrad.emit.llvm import (
    I32,
    I64,
    POINTER,
    VOID,
    alloca,
    counted_loop,
    element,
    i64,
    intrinsic,
    load_word,
    maximum,
    minimum,
    run_once,
    value_type,
)
from tracegrad.emit.matrices import NOT_POSITIVE, SINGULAR
from tracegrad.emit.nests import copy, memset
from tracegrad.emit.parallel import run_chunks
from tracegrad.emit.regions import set_threads
from tracegrad.emit.scalars import apply
from tracegrad.emit.scratch import scratch_key
from tracegrad.ir.dims import product
from tracegrad.schedule.loops import LU_KERNELS, MATRICES, NUMBERS, Call


def emit_lapack(frame: Frame, call: Call) -> None:
    """`out = kernel(a)` or `kernel(a, b)` for each matrix; leading axes broadcast. attrs: transposed (the last two axes
    of `a` are stored the other way round; default no), of solve_triangular also lower and unit."""
    register_blas()
    unit, names = frame.unit, (*call.inputs, *call.outputs)
    work = [frame.partials[scratch_key(call)]] if call.kernel in LU_KERNELS else []
    given = [*map(frame.pointer, names), *work]
    function = unit.function(call.kernel, I64, [POINTER] * (3 + len(given)))
    for argument in function.args:
        argument.add_attribute("noalias")
    context, error, table, *pointers = function.args
    inner = Frame(unit, ir.IRBuilder(function.append_basic_block("entry")), context, error, table)
    _emit_batch(inner, call, pointers)
    inner.builder.ret(i64(STATUS.ok))
    alone = not unit.inside and blas_threads() is not None
    if alone:
        set_threads(frame, 1)
    status = frame.builder.call(function, [frame.context, frame.error, frame.table, *given])
    if alone:
        set_threads(frame, blas_threads() or 1)
    with frame.builder.if_then(frame.builder.icmp_signed("!=", status, i64(STATUS.ok)), likely=False):
        frame.stop(status)


def _emit_batch(frame: Frame, call: Call, pointers: list[ir.Value]) -> None:
    b, sizes = frame.builder, frame.sizes
    buffers = [frame.unit.buffers[name] for name in (*call.inputs, *call.outputs)]
    out = buffers[-1]
    numbers = call.kernel in NUMBERS
    batch = out.shape if numbers else out.shape[:-2]
    n = sizes.value(buffers[0].shape[-1])
    columns = i64(1) if numbers else sizes.value(out.shape[-1])
    for size in (n, columns):
        frame.stop_unless(b.icmp_signed("<", size, i64(2**31)), STATUS.blas, i64(0), size, i64(0))
    kernel = _Kernel(frame, out.dtype, n, columns, vector=not numbers and out.shape[-1] == 1)
    with counted_loop(b, i64(0), sizes.value(product(batch)), name="matrix") as position:
        where = []
        for pointer, buffer in zip(pointers, buffers, strict=False):
            axes = 0 if numbers and buffer is out else 2
            cut = len(buffer.shape) - axes
            which = batch_index(frame, position, batch, buffer.shape[:cut])
            start = b.mul(which, sizes.value(product(buffer.shape[cut:])))
            where.append(element(b, pointer, start, kernel.kind))
        _KERNELS[call.kernel](kernel, *where, *pointers[len(buffers) :], **call.attrs)


class _Kernel:
    """The code for one n × n matrix, whose right-hand sides have some number of columns (`vector`: one)."""

    def __init__(self, frame: Frame, dtype: np.dtype, n: ir.Value, columns: ir.Value, vector: bool):
        self.frame, self.b, self.dtype, self.kind = frame, frame.builder, dtype, value_type(dtype)
        self.n, self.columns, self.vector = n, columns, vector
        self.bytes = i64(dtype.itemsize)

    # ---- LAPACK

    def factor(self, name: str, *args: ir.Value) -> ir.Value:
        """Run a routine of LAPACK, whose last argument is where it says what is wrong; that."""
        info = alloca(self.b, I32)
        call_routine(self.b, self.kind, name, *args, info)
        return self.b.load(info, typ=I32)

    def eliminate(self, a: ir.Value, work: ir.Value, transposed: bool) -> tuple[ir.Value, ir.Value, ir.Value]:
        """The factors of a as LAPACK writes them, column-major, the exchanges of rows, and whether a pivot is zero."""
        b, n = self.b, self.n
        if transposed:
            copy(b, work, a, b.mul(b.mul(n, n), self.bytes))
        else:
            with counted_loop(b, i64(0), n, name="j") as j, counted_loop(b, i64(0), n, name="i") as i:
                value = b.load(element(b, a, b.add(b.mul(i, n), j), self.kind), typ=self.kind)
                b.store(value, element(b, work, b.add(b.mul(j, n), i), self.kind))
        exchanges = element(b, work, b.mul(n, n), self.kind)
        leading = maximum(b, n, i64(1))
        info = self.factor("getrf", number(b, n), number(b, n), work, number(b, leading), exchanges)
        return work, exchanges, b.icmp_signed(">", info, ir.Constant(I32, 0))

    def diagonal(self, matrix: ir.Value, k: ir.Value) -> ir.Value:
        b = self.b
        return b.load(element(b, matrix, b.mul(k, b.add(self.n, i64(1))), self.kind), typ=self.kind)

    def exchanged(self, exchanges: ir.Value, k: ir.Value) -> ir.Value:
        """The row, from k on, with which row k changed places."""
        row = self.b.load(element(self.b, exchanges, k, I32), typ=I32)
        return self.b.sub(self.b.sext(row, I64), i64(1))

    def fail(self, condition: ir.Value, fault: int) -> None:
        self.frame.stop_unless(self.b.not_(condition), STATUS.linalg, i64(0), i64(fault), i64(0))

    # ---- triangular systems

    def substitute(self, t: ir.Value, x: ir.Value, upper: bool, transposed: bool, unit: bool) -> None:
        """x = op(t)⁻¹ x, with t column-major and op the transposition or nothing."""
        b, frame = self.b, self.frame
        if self.vector:
            one, n = number(b, i64(1)), number(b, self.n)
            letters = [letter(b, "UL"[not upper]), letter(b, "NT"[transposed]), letter(b, "NU"[unit])]
            call_routine(b, self.kind, "trsv", *letters, n, t, number(b, maximum(b, self.n, i64(1))), x, one)
            return
        # Half as many multiplications as in a product of these sizes, which take twice as long each.
        work = b.sdiv(b.mul(b.mul(self.n, self.n), self.columns), i64(GRAIN))
        wanted = power_of_two(b, minimum(b, work, b.sdiv(self.columns, i64(2 * ALIGN))))
        share = b.mul(wanted, i64(ALIGN))
        step = maximum(b, b.mul(b.sdiv(b.add(self.columns, b.sub(share, i64(1))), share), i64(ALIGN)), i64(1))
        count = maximum(b, b.sdiv(b.add(self.columns, b.sub(step, i64(1))), step), i64(1))
        chunk = _define_chunk(frame, self.kind, upper, transposed, unit)
        run_chunks(frame, chunk, [t, x, self.n, self.columns, step], count)

    # ---- kernels

    def solve(self, a: ir.Value, right: ir.Value, out: ir.Value, work: ir.Value, transposed: bool = False) -> None:
        b = self.b
        factors, exchanges, singular = self.eliminate(a, work, transposed)
        self.fail(singular, SINGULAR)
        copy(b, out, right, b.mul(b.mul(self.n, self.columns), self.bytes))
        self._behind(factors, exchanges, out)

    def inv(self, a: ir.Value, out: ir.Value, work: ir.Value) -> None:
        b, n = self.b, self.n
        factors, exchanges, singular = self.eliminate(a, work, transposed=False)
        self.fail(singular, SINGULAR)
        memset(b, out, b.mul(b.mul(n, n), self.bytes))
        with counted_loop(b, i64(0), n, name="k") as k:
            b.store(ir.Constant(self.kind, 1.0), element(b, out, b.mul(k, b.add(n, i64(1))), self.kind))
        self._behind(factors, exchanges, out)

    def _behind(self, factors: ir.Value, exchanges: ir.Value, x: ir.Value) -> None:
        """x becomes a⁻¹ x."""
        b, columns = self.b, self.columns
        with counted_loop(b, i64(0), self.n, name="k") as k:
            p = self.exchanged(exchanges, k)
            with b.if_then(b.icmp_signed("!=", p, k)), counted_loop(b, i64(0), columns, name="j") as j:
                first, second = (element(b, x, b.add(b.mul(row, columns), j), self.kind) for row in (k, p))
                one, other = b.load(first, typ=self.kind), b.load(second, typ=self.kind)
                b.store(other, first)
                b.store(one, second)
        self.substitute(factors, x, upper=False, transposed=False, unit=True)
        self.substitute(factors, x, upper=True, transposed=False, unit=False)

    def solve_triangular(
        self, a: ir.Value, right: ir.Value, out: ir.Value, lower: bool, unit: bool, transposed: bool = False
    ) -> None:
        b = self.b
        if not unit:
            with counted_loop(b, i64(0), self.n, name="k") as k:
                self.fail(b.fcmp_ordered("==", self.diagonal(a, k), ir.Constant(self.kind, 0.0)), SINGULAR)
        copy(b, out, right, b.mul(b.mul(self.n, self.columns), self.bytes))
        self.substitute(a, out, upper=lower != transposed, transposed=not transposed, unit=unit)

    def cholesky(self, a: ir.Value, out: ir.Value) -> None:
        b, n = self.b, self.n
        copy(b, out, a, b.mul(b.mul(n, n), self.bytes))
        info = self.factor("potrf", letter(b, "U"), number(b, n), out, number(b, maximum(b, n, i64(1))))
        self.fail(b.icmp_signed(">", info, ir.Constant(I32, 0)), NOT_POSITIVE)
        with counted_loop(b, i64(0), n, name="i") as i:
            first = b.add(i, i64(1))
            begin = element(b, out, b.add(b.mul(i, n), first), self.kind)
            memset(b, begin, b.mul(b.sub(n, first), self.bytes))

    def cholesky_adjoint(self, factor: ir.Value, g: ir.Value, out: ir.Value) -> None:
        copy(self.b, out, g, self.b.mul(self.b.mul(self.n, self.n), self.bytes))
        reverse_blocks(self.frame, self.dtype, self.n, factor, out)

    def logabsdet(self, a: ir.Value, out: ir.Value, work: ir.Value) -> None:
        self.b.store(self._determinant(a, work)[1], out)

    def det_sign(self, a: ir.Value, out: ir.Value, work: ir.Value) -> None:
        self.b.store(self._determinant(a, work)[0], out)

    def det(self, a: ir.Value, out: ir.Value, work: ir.Value) -> None:
        sign, size = self._determinant(a, work)
        self.b.store(self.b.fmul(sign, apply(self.b, "exp", [size], self.dtype, self.dtype)), out)

    def _determinant(self, a: ir.Value, work: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Sign and logarithm of the size; 0 and -inf for a singular matrix."""
        b, kind = self.b, self.kind
        factors, exchanges, singular = self.eliminate(a, work, transposed=False)
        sign, size = alloca(b, kind), alloca(b, kind)
        b.store(ir.Constant(kind, 1.0), sign)
        b.store(ir.Constant(kind, 0.0), size)
        with counted_loop(b, i64(0), self.n, name="k") as k:
            pivot, before = self.diagonal(factors, k), b.load(sign, typ=kind)
            moved = b.icmp_signed("!=", self.exchanged(exchanges, k), k)
            turned = b.xor(moved, b.fcmp_ordered("<", pivot, ir.Constant(kind, 0.0)))
            b.store(b.select(turned, b.fneg(before), before), sign)
            term = apply(b, "log", [intrinsic(b, "llvm.fabs", pivot)], self.dtype, self.dtype)
            b.store(b.fadd(b.load(size, typ=kind), term), size)
        none, nothing = ir.Constant(kind, 0.0), ir.Constant(kind, -np.inf)
        return (
            b.select(singular, none, b.load(sign, typ=kind)),
            b.select(singular, nothing, b.load(size, typ=kind)),
        )


def _define_chunk(frame: Frame, kind: ir.Type, upper: bool, transposed: bool, unit: bool) -> ir.Function:
    """`chunk(data, number)`: some columns of `_Kernel.substitute`."""
    function = frame.unit.function("trsm_chunk", VOID, [POINTER, I64])
    run_once(function)
    data, position = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    t, x = load_word(b, data, 0, POINTER), load_word(b, data, 1, POINTER)
    n, columns, step = (load_word(b, data, k) for k in (2, 3, 4))
    first = b.mul(position, step)
    mine = minimum(b, step, b.sub(columns, first))
    # x = op(t)⁻¹ x, row-major, is xᵀ = xᵀ op(t)⁻ᵀ
    letters = [letter(b, "R"), letter(b, "UL"[not upper]), letter(b, "TN"[transposed]), letter(b, "NU"[unit])]
    one = alloca(b, kind)
    b.store(ir.Constant(kind, 1.0), one)
    leading = [number(b, maximum(b, size, i64(1))) for size in (n, columns)]
    x = element(b, x, first, kind)
    call_routine(b, kind, "trsm", *letters, number(b, mine), number(b, n), one, t, leading[0], x, leading[1])
    b.ret_void()
    return function


_KERNELS: dict[str, Callable[..., None]] = {name: getattr(_Kernel, name) for name in MATRICES}
