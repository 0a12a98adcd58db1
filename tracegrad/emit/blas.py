"""Matrix products: BLAS by symbol for large ones, loops for tiny ones of known size.

A product is normalised to a batch of (m, k) × (k, n); vectors count as matrices with m or n = 1. Arrays are row-major,
BLAS is column-major, so C = A B is computed as Cᵀ = Bᵀ Aᵀ.
"""

from __future__ import annotations

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.frame import Frame
from tracegrad.emit.gemm import call_gemm, chunks_of, count_chunks, emit_chunks, may_be_cut
from tracegrad.emit.layout import STATUS
from tracegrad.emit.libraries import blas_threads, register_blas
from tracegrad.emit.llvm import (
    F64,
    I8,
    I32,
    I64,
    POINTER,
    SUM,
    VOID,
    alloca,
    counted_loop,
    declare,
    element,
    i64,
    value_type,
)
from tracegrad.ir.dims import DimLike, product
from tracegrad.records import record
from tracegrad.schedule.loops import Buffer, Call

INLINE = 4096  # products of at most this many multiplications are loops


@record
class Product:
    """The sizes of a (batched) product, whether operands are stored transposed, and the batch shapes."""

    m: DimLike
    k: DimLike
    n: DimLike
    a_transposed: bool
    b_transposed: bool
    batch: tuple[DimLike, ...]
    a_batch: tuple[DimLike, ...]
    b_batch: tuple[DimLike, ...]


def analyse(a: Buffer, b: Buffer, out: Buffer, a_transposed: bool, b_transposed: bool) -> Product:
    """np.matmul's rules. `a_transposed` says that the last two axes of `a` are stored the other way round."""
    if len(a.shape) == 1:
        m, k, a_transposed = 1, a.shape[0], False
    else:
        m, k = a.shape[-2:][::-1] if a_transposed else a.shape[-2:]
    if len(b.shape) == 1:
        n, b_transposed = 1, False
    else:
        n = b.shape[-2] if b_transposed else b.shape[-1]
    matrix_axes = (len(a.shape) > 1) + (len(b.shape) > 1)
    batch = out.shape[: len(out.shape) - matrix_axes]
    return Product(m, k, n, a_transposed, b_transposed, batch, a.shape[:-2], b.shape[:-2])


def emit_matmul(frame: Frame, call: Call) -> None:
    """`out = a @ b` on float32 or float64 buffers. attrs: a_transposed, b_transposed (default no)."""
    a, b = (frame.unit.buffers[name] for name in call.inputs)
    (out_name,) = call.outputs
    out = frame.unit.buffers[out_name]
    flags = bool(call.attrs.get("a_transposed", False)), bool(call.attrs.get("b_transposed", False))
    p = analyse(a, b, out, *flags)
    work = p.m * p.k * p.n
    small = isinstance(work, int) and work <= INLINE
    cut = product(p.batch) == 1 and may_be_cut(p.m, p.k, p.n) and blas_threads() is not None
    if cut and isinstance(work, int):
        register_blas()
        pointers = [frame.pointer(name) for name in (*call.inputs, out_name)]
        values = [frame.sizes.value(d) for d in (p.m, p.k, p.n)]
        emit_chunks(frame, flags, values, i64(chunks_of(p.m, p.k, p.n)), pointers, out.dtype)
        return
    function = _define_small(frame, p, out.dtype) if small else _define_blas(frame, p, out.dtype)
    pointers = [frame.pointer(name) for name in (*call.inputs, out_name)]
    sizes = [frame.sizes.value(d) for d in (p.m, p.k, p.n)]
    if not small:
        builder = frame.builder
        for size in sizes:
            fits = builder.icmp_signed("<", size, i64(2**31))
            frame.stop_unless(fits, STATUS.blas, i64(0), size, i64(0))
    if cut:
        count = count_chunks(frame.builder, *sizes)
        with frame.builder.if_else(frame.builder.icmp_signed(">", count, i64(1))) as (large, others):
            with large:
                emit_chunks(frame, flags, sizes, count, pointers, out.dtype)
            with others:
                frame.builder.call(function, [*pointers, *sizes])
        return
    _for_batch(frame, p, pointers, sizes, out.dtype, lambda where: frame.builder.call(function, [*where, *sizes]))


def _for_batch(frame: Frame, p: Product, pointers: list, sizes: list, dtype: np.dtype, run: object) -> None:
    """`run` for each matrix of the batch; an operand's axis of size 1, or one it lacks, is the same for all."""
    b = frame.builder
    if product(p.batch) == 1:
        run(pointers)
        return
    kind = value_type(dtype)
    m, k, n = sizes
    matrix_sizes = b.mul(m, k), b.mul(k, n), b.mul(m, n)
    with counted_loop(b, i64(0), frame.sizes.value(product(p.batch)), name="batch") as position:
        where = []
        for pointer, shape, size in zip(pointers, (p.a_batch, p.b_batch, p.batch), matrix_sizes):
            which = batch_index(frame, position, p.batch, shape)
            where.append(element(b, pointer, b.mul(which, size), kind))
        run(where)


def batch_index(frame: Frame, position: ir.Value, batch: tuple[DimLike, ...], shape: tuple[DimLike, ...]) -> ir.Value:
    """The number of an operand's matrix for batch element `position`."""
    b = frame.builder
    if shape == batch:
        return position
    total: ir.Value = i64(0)
    stride: ir.Value = i64(1)
    rest = position
    for axis in range(1, len(batch) + 1):
        size = frame.sizes.value(batch[-axis])
        index = b.srem(rest, size)
        rest = b.sdiv(rest, size)
        if axis <= len(shape) and shape[-axis] != 1:
            total = b.add(total, b.mul(index, stride))
            stride = b.mul(stride, size)
    return total


def _function(frame: Frame, kind: str) -> tuple[ir.Function, ir.IRBuilder]:
    function = frame.unit.function(kind, VOID, [POINTER] * 3 + [I64] * 3)
    for argument in function.args[:3]:
        argument.add_attribute("noalias")
    return function, ir.IRBuilder(function.append_basic_block("entry"))


def _define_small(frame: Frame, p: Product, dtype: np.dtype) -> ir.Function:
    """Plain loops over constants. Rows of the result are built as sums of rows of `b`, or as dot products if it is
    stored transposed, so that the inner loop is contiguous."""
    function, b = _function(frame, "matmul")
    a_pointer, b_pointer, out, *_ = function.args
    kind = value_type(dtype)
    m, k, n = (int(d) for d in (p.m, p.k, p.n))
    zero = ir.Constant(kind, 0.0)

    def a_at(i: ir.Value, t: ir.Value) -> ir.Value:
        return b.add(b.mul(t, i64(m)), i) if p.a_transposed else b.add(b.mul(i, i64(k)), t)

    def load(pointer: ir.Value, index: ir.Value) -> ir.Value:
        return b.load(element(b, pointer, index, kind), typ=kind)

    with counted_loop(b, i64(0), i64(m), name="i") as i:
        if p.b_transposed or n == 1:
            with counted_loop(b, i64(0), i64(n), name="j") as j:
                total = alloca(b, kind)
                b.store(zero, total)
                with counted_loop(b, i64(0), i64(k), name="t") as t:
                    x, y = load(a_pointer, a_at(i, t)), load(b_pointer, b.add(b.mul(j, i64(k)), t))
                    b.store(b.fadd(b.load(total, typ=kind), b.fmul(x, y, flags=SUM), flags=SUM), total)
                b.store(b.load(total, typ=kind), element(b, out, b.add(b.mul(i, i64(n)), j), kind))
        else:
            with counted_loop(b, i64(0), i64(n), name="j") as j:
                b.store(zero, element(b, out, b.add(b.mul(i, i64(n)), j), kind))
            with counted_loop(b, i64(0), i64(k), name="t") as t:
                x = load(a_pointer, a_at(i, t))
                with counted_loop(b, i64(0), i64(n), name="j") as j:
                    y = load(b_pointer, b.add(b.mul(t, i64(n)), j))
                    target = element(b, out, b.add(b.mul(i, i64(n)), j), kind)
                    b.store(b.fadd(b.load(target, typ=kind), b.fmul(x, y, flags=SUM), flags=SUM), target)
    b.ret_void()
    return function


def _define_blas(frame: Frame, p: Product, dtype: np.dtype) -> ir.Function:
    """One product by gemm, gemv or dot; zeros where a size is zero."""
    register_blas()
    function, b = _function(frame, "matmul")
    a_pointer, b_pointer, out, m, k, n = function.args
    kind = value_type(dtype)
    empty, done = function.append_basic_block("empty"), function.append_basic_block("done")
    some = function.append_basic_block("some")
    nonzero = b.icmp_signed("!=", b.mul(b.mul(m, n), k), i64(0))
    b.cbranch(nonzero, some, empty)
    b.position_at_end(empty)
    with counted_loop(b, i64(0), b.mul(m, n), name="zero") as position:
        b.store(ir.Constant(kind, 0.0), element(b, out, position, kind))
    b.branch(done)
    b.position_at_end(some)
    if p.m == 1 and p.n == 1:
        _dot(b, kind, out, a_pointer, b_pointer, k)
    elif p.n == 1:
        _gemv(b, kind, out, a_pointer, b_pointer, rows=m, columns=k, transposed=p.a_transposed)
    elif p.m == 1:
        _gemv(b, kind, out, b_pointer, a_pointer, rows=n, columns=k, transposed=not p.b_transposed)
    else:
        leading = (m if p.a_transposed else k, k if p.b_transposed else n, n)
        call_gemm(b, kind, (p.a_transposed, p.b_transposed), (m, k, n), (a_pointer, b_pointer, out), leading)
    b.branch(done)
    b.position_at_end(done)
    b.ret_void()
    return function


def _by_reference(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    slot = alloca(b, value.type)
    b.store(value, slot)
    return slot


def _int(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    return _by_reference(b, b.trunc(value, I32))


def _letter(b: ir.IRBuilder, transposed: bool) -> ir.Value:
    return _by_reference(b, ir.Constant(I8, ord("T" if transposed else "N")))


def _routine(b: ir.IRBuilder, kind: ir.Type, name: str, result: ir.Type, count: int) -> ir.Function:
    return declare(b.module, f"tg_{'d' if kind == F64 else 's'}{name}", result, [POINTER] * count)


def _dot(b: ir.IRBuilder, kind: ir.Type, out: ir.Value, x: ir.Value, y: ir.Value, k: ir.Value) -> None:
    one = _int(b, i64(1))
    b.store(b.call(_routine(b, kind, "dot", kind, 5), [_int(b, k), x, one, y, one]), out)


def _gemv(
    b: ir.IRBuilder, kind: ir.Type, out: ir.Value, matrix: ir.Value, vector: ir.Value, *, rows: ir.Value,
    columns: ir.Value, transposed: bool,
) -> None:  # fmt: skip
    """out = M v with M (rows, columns) row-major, or its transpose row-major.

    The result is zeroed first: some BLAS multiply what they find there by zero, which keeps NaN.
    """
    with counted_loop(b, i64(0), rows, name="zero") as position:
        b.store(ir.Constant(kind, 0.0), element(b, out, position, kind))
    one = _int(b, i64(1))
    alpha, beta = _by_reference(b, ir.Constant(kind, 1.0)), _by_reference(b, ir.Constant(kind, 0.0))
    r, c = _int(b, rows), _int(b, columns)
    order = [r, c, alpha, matrix, r] if transposed else [c, r, alpha, matrix, c]
    letter = _letter(b, not transposed)
    b.call(_routine(b, kind, "gemv", VOID, 11), [letter, *order, vector, one, beta, out, one])
