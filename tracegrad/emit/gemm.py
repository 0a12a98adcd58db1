"""Large matrix products, cut into chunks that run on the same thread pool as every other loop.

BLAS has threads of its own, which would compete for the cores with those of the pool; so each chunk is one gemm on one
thread. Chunks are rows or columns of the result, their borders depend on the sizes alone, and every element is computed
by one chunk: the same bits for any number of threads.
"""

from __future__ import annotations

import llvmlite.ir as ir
import numpy as np

from tracegrad.emit.frame import Frame
from tracegrad.emit.libraries import SET_THREADS, blas_threads
from tracegrad.emit.llvm import (
    F64,
    I8,
    I32,
    I64,
    POINTER,
    VOID,
    alloca,
    declare,
    element,
    function_pointer,
    i64,
    load_word,
    maximum,
    minimum,
    run_once,
    store_word,
    value_type,
)
from tracegrad.ir.dims import DimLike

GRAIN = 1 << 21  # multiplications of the smallest chunk: some 20 µs of a core
MAX_CHUNKS = 8
ALIGN = 16  # rows or columns of a chunk are a multiple of this, so that BLAS's register tiles stay full


def chunks_of(m: DimLike, k: DimLike, n: DimLike) -> int:
    """Into how many chunks a product of these sizes is cut; 1 where the sizes are not known."""
    if not (isinstance(m, int) and isinstance(k, int) and isinstance(n, int)) or min(m, n) == 1:
        return 1
    most = min(MAX_CHUNKS, m * k * n // GRAIN, max(m, n) // (2 * ALIGN))
    return 1 << (most.bit_length() - 1) if most > 1 else 1


def may_be_cut(m: DimLike, k: DimLike, n: DimLike) -> bool:
    """Whether a product of these sizes is cut into chunks for some values of their symbols."""
    return chunks_of(m, k, n) > 1 if all(isinstance(d, int) for d in (m, k, n)) else m != 1 and n != 1


def count_chunks(b: ir.IRBuilder, m: ir.Value, k: ir.Value, n: ir.Value) -> ir.Value:
    """`chunks_of` for sizes that are known when the program runs; below 2 for a product that is not cut."""
    work = b.sdiv(b.mul(b.mul(m, k), n), i64(GRAIN))
    return power_of_two(b, minimum(b, work, b.sdiv(maximum(b, m, n), i64(2 * ALIGN))))


def power_of_two(b: ir.IRBuilder, most: ir.Value) -> ir.Value:
    """The largest that is at most `most` and MAX_CHUNKS; at least 1. As many chunks go evenly to as many cores."""
    count: ir.Value = i64(1)
    power = 2
    while power <= MAX_CHUNKS:
        count = b.select(b.icmp_signed(">=", most, i64(power)), i64(power), count)
        power *= 2
    return count


def emit_chunks(
    frame: Frame, transposed: tuple[bool, bool], sizes: list[ir.Value], count: ir.Value, pointers: list[ir.Value],
    dtype: np.dtype,
) -> None:  # fmt: skip
    """`out = a @ b` for one pair of matrices, in `count` chunks, with SciPy's BLAS on one thread per chunk."""
    b = frame.builder
    m, _, n = sizes
    longest = maximum(b, m, n)
    share = b.mul(count, i64(ALIGN))
    step = b.mul(b.sdiv(b.add(longest, b.sub(share, i64(1))), share), i64(ALIGN))
    chunk = _define_chunk(frame, transposed, dtype)
    words = [*pointers, *sizes, step]
    data = alloca(b, I64, len(words))
    for position, word in enumerate(words):
        store_word(b, word, data, position)
    change = declare(b.module, SET_THREADS, I32, [I32])
    b.call(change, [ir.Constant(I32, 1)])
    run = declare(b.module, "tg_parallel", VOID, [POINTER, POINTER, POINTER, I64])
    chunks = b.sdiv(b.add(longest, b.sub(step, i64(1))), step)
    b.call(run, [frame.context, function_pointer(b, chunk), data, chunks])
    b.call(change, [ir.Constant(I32, 1 if frame.unit.inside else blas_threads())])


def _define_chunk(frame: Frame, transposed: tuple[bool, bool], dtype: np.dtype) -> ir.Function:
    """`chunk(data, number)`: its rows of the result, or its columns where there are more of those."""
    kind = value_type(dtype)
    function = frame.unit.function("gemm_chunk", VOID, [POINTER, I64])
    run_once(function)
    data, number = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    a, second, out = (load_word(b, data, position, POINTER) for position in range(3))
    m, k, n, step = (load_word(b, data, position) for position in range(3, 7))
    by_rows = b.icmp_signed(">=", m, n)
    first = b.mul(number, step)
    extent = b.sub(minimum(b, b.add(first, step), b.select(by_rows, m, n)), first)
    row, column = b.select(by_rows, first, i64(0)), b.select(by_rows, i64(0), first)
    rows, columns = b.select(by_rows, extent, m), b.select(by_rows, n, extent)
    a = element(b, a, row if transposed[0] else b.mul(row, k), kind)
    second = element(b, second, b.mul(column, k) if transposed[1] else column, kind)
    out = element(b, out, b.add(b.mul(row, n), column), kind)
    leading = (m if transposed[0] else k, k if transposed[1] else n, n)
    call_gemm(b, kind, transposed, (rows, k, columns), (a, second, out), leading)
    b.ret_void()
    return function


def call_gemm(
    b: ir.IRBuilder, kind: ir.Type, transposed: tuple[bool, bool], sizes: tuple[ir.Value, ir.Value, ir.Value],
    pointers: tuple[ir.Value, ir.Value, ir.Value], leading: tuple[ir.Value, ir.Value, ir.Value],
) -> None:  # fmt: skip
    """One gemm on row-major matrices. BLAS is column-major, so C = A B is computed as Cᵀ = Bᵀ Aᵀ."""
    m, k, n = (_by_reference(b, b.trunc(size, I32)) for size in sizes)
    a_step, b_step, out_step = (_by_reference(b, b.trunc(step, I32)) for step in leading)
    first, second, out = pointers
    alpha, beta = (_by_reference(b, ir.Constant(kind, value)) for value in (1.0, 0.0))
    letters = [_by_reference(b, ir.Constant(I8, ord("T" if t else "N"))) for t in reversed(transposed)]
    routine = declare(b.module, f"tg_{'d' if kind == F64 else 's'}gemm", VOID, [POINTER] * 13)
    b.call(routine, [*letters, n, m, k, alpha, second, b_step, first, a_step, beta, out, out_step])


def _by_reference(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    slot = alloca(b, value.type)
    b.store(value, slot)
    return slot
