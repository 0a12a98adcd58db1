"""The adjoint of the Cholesky factor: the factorisation's steps in reverse, by columns and by blocks of columns.

I. Murray, Differentiation of the Cholesky decomposition (2016), section 3. All matrices are row-major and n × n; `bar`
starts as the lower triangle of the factor's gradient and ends as the symmetric gradient for the matrix.
"""

from __future__ import annotations

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.frame import Frame
from tracegrad.emit.gemm import ALIGN, GRAIN, power_of_two
from tracegrad.emit.lapack_calls import call_routine, letter, number
from tracegrad.emit.llvm import (
    ELEMENTWISE,
    I64,
    POINTER,
    VOID,
    alloca,
    counted_loop,
    element,
    i64,
    load_word,
    maximum,
    minimum,
    run_once,
    value_type,
)
from tracegrad.emit.parallel import run_chunks

BLOCK = 32  # columns at a time
TILE = 8  # columns that are copied to rows together, so that what is written lies side by side


def reverse_columns(
    b: ir.IRBuilder, dtype: np.dtype, n: ir.Value, l: ir.Value, bar: ir.Value, first: ir.Value, end: ir.Value
) -> None:
    """One column after the other, last to first, of the block of rows and columns from `first` to `end`."""
    kind = value_type(dtype)

    def at(matrix: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
        return element(b, matrix, b.add(b.mul(i, n), j), kind)

    def load(matrix: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
        return b.load(at(matrix, i, j), typ=kind)

    def subtract(place: ir.Value, factor: ir.Value, other: ir.Value) -> None:
        difference = b.fsub(b.load(place, typ=kind), b.fmul(factor, other, flags=ELEMENTWISE), flags=ELEMENTWISE)
        b.store(difference, place)

    with counted_loop(b, i64(0), b.sub(end, first), name="back") as t:
        j = b.sub(b.sub(end, i64(1)), t)
        below, own = b.add(j, i64(1)), at(bar, j, j)
        scale = b.fdiv(ir.Constant(kind, 1.0), load(l, j, j))
        with counted_loop(b, below, end, name="i") as i:
            scaled = b.fmul(load(bar, i, j), scale)
            b.store(scaled, at(bar, i, j))
            subtract(own, scaled, load(l, i, j))
        pivot = b.fmul(b.load(own, typ=kind), scale)
        b.store(pivot, own)
        with counted_loop(b, first, j, name="k") as k:
            subtract(at(bar, j, k), pivot, load(l, j, k))
        with counted_loop(b, below, end, name="i") as i:
            scaled = load(bar, i, j)
            with counted_loop(b, first, j, name="k") as k:
                subtract(at(bar, i, k), scaled, load(l, j, k))
                subtract(at(bar, j, k), scaled, load(l, i, k))


def mirror(b: ir.IRBuilder, dtype: np.dtype, n: ir.Value, bar: ir.Value) -> None:
    """Both triangles become half of the lower one, whose diagonal counts twice already."""
    kind = value_type(dtype)
    half, tile = ir.Constant(kind, 0.5), i64(TILE)
    with (
        counted_loop(b, i64(0), n, tile, name="tile") as first,
        counted_loop(b, first, n, name="i") as i,
        counted_loop(b, first, minimum(b, b.add(i, i64(1)), b.add(first, tile)), name="j", few=True) as j,
    ):
        place = element(b, bar, b.add(b.mul(i, n), j), kind)
        value = b.fmul(b.load(place, typ=kind), half)
        b.store(value, place)
        b.store(value, element(b, bar, b.add(b.mul(j, n), i), kind))


def reverse_blocks(frame: Frame, dtype: np.dtype, n: ir.Value, l: ir.Value, bar: ir.Value) -> None:
    """Blocks of columns, last to first. What is left of a block is cut into chunks for the thread pool, whose borders
    depend on the sizes alone."""
    b, kind = frame.builder, value_type(dtype)
    chunk = _define_chunk(frame, dtype)
    size = i64(BLOCK)
    leading = number(b, maximum(b, n, i64(1)))
    one, minus = alloca(b, kind), alloca(b, kind)
    b.store(ir.Constant(kind, 1.0), one)
    b.store(ir.Constant(kind, -1.0), minus)
    count = b.sdiv(b.add(n, b.sub(size, i64(1))), size)
    with counted_loop(b, i64(0), count, name="block") as t:
        start = b.mul(b.sub(b.sub(count, i64(1)), t), size)
        end = minimum(b, n, b.add(start, size))
        width, rows = number(b, b.sub(end, start)), number(b, b.sub(n, end))
        corner, under = b.add(b.mul(start, n), start), b.add(b.mul(end, n), start)
        triangle, above = element(b, l, corner, kind), element(b, bar, corner, kind)
        known, below = element(b, l, under, kind), element(b, bar, under, kind)
        with b.if_then(b.icmp_signed("<", end, n)):
            sides = [letter(b, side) for side in "LUNN"]
            call_routine(b, kind, "trsm", *sides, width, rows, one, triangle, leading, below, leading)
            sides = [letter(b, side) for side in "NT"]
            call_routine(
                b, kind, "gemm", *sides, width, width, rows, minus, known, leading, below, leading, one, above, leading
            )
        reverse_columns(b, dtype, n, l, bar, start, end)
        work = b.sdiv(b.mul(b.mul(i64(2 * BLOCK), b.sub(n, start)), start), i64(GRAIN))
        wanted = power_of_two(b, minimum(b, work, b.sdiv(start, i64(2 * ALIGN))))
        share = b.mul(wanted, i64(ALIGN))
        step = maximum(b, b.mul(b.sdiv(b.add(start, b.sub(share, i64(1))), share), i64(ALIGN)), i64(1))
        chunks = b.sdiv(b.add(start, b.sub(step, i64(1))), step)
        with b.if_then(b.icmp_signed(">", start, i64(0))):
            run_chunks(frame, chunk, [l, bar, n, start, end, step], chunks)
    mirror(b, dtype, n, bar)


def _define_chunk(frame: Frame, dtype: np.dtype) -> ir.Function:
    """`chunk(data, number)`: some of the columns to the left of a block."""
    kind = value_type(dtype)
    function = frame.unit.function("cholesky_chunk", VOID, [POINTER, I64])
    run_once(function)
    data, position = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    l, bar = (load_word(b, data, k, POINTER) for k in (0, 1))
    n, start, end, step = (load_word(b, data, k) for k in (2, 3, 4, 5))
    one, minus = alloca(b, kind), alloca(b, kind)
    b.store(ir.Constant(kind, 1.0), one)
    b.store(ir.Constant(kind, -1.0), minus)
    first = b.mul(position, step)
    mine, width, rows = (
        number(b, v) for v in (minimum(b, step, b.sub(start, first)), b.sub(end, start), b.sub(n, end))
    )
    leading = number(b, n)

    def at(matrix: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
        return element(b, matrix, b.add(b.mul(i, n), j), kind)

    below, own, result = at(bar, end, start), at(l, start, first), at(bar, start, first)
    n_, t, r, u = (letter(b, side) for side in "NTRU")
    with b.if_then(b.icmp_signed("<", end, n)):
        # column-major: bar_belowᵀ -= l_ownᵀ c̄ᵀ and bar_ownᵀ -= l_belowᵀ c̄, with c̄ what is below the block
        call_routine(
            b, kind, "gemm", n_, n_, mine, rows, width, minus, own, leading, below, leading, one, at(bar, end, first),
            leading,
        )  # fmt: skip
        call_routine(
            b, kind, "gemm", n_, t, mine, width, rows, minus, at(l, end, first), leading, below, leading, one, result,
            leading,
        )  # fmt: skip
    corner = at(bar, start, start)
    call_routine(b, kind, "symm", r, u, mine, width, minus, corner, leading, own, leading, one, result, leading)
    b.ret_void()
    return function
