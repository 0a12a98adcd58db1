"""The native functions that all compiled programs share, as IR; `runtime` loads them.

Writing the text of the IR takes longer than compiling it, so it is kept in `shared.ll`:

    python -m tracegrad.emit.shared    writes the file, after a change of what it is made by
"""

from __future__ import annotations

import llvmlite.ir as ir

from tracegrad.emit.caller import define_call
from tracegrad.emit.layout import CONTEXT, OBJECTS, POOL, SLOTS
from tracegrad.emit.llvm import (
    I32,
    I64,
    POINTER,
    VOID,
    alloca,
    call_pointer,
    declare,
    element,
    function_pointer,
    i64,
    load_word,
    store_word,
)


def shared_module() -> ir.Module:
    """A module with the functions `call`, `acquire`, `release` and `parallel`."""
    module = ir.Module("runtime")
    define_call(module, "call")
    _define_acquire(module, "acquire")
    _define_release(module, "release")
    _define_parallel(module, "parallel")
    return module


def shared_text() -> str:
    """The module's text, for any processor."""
    lines = str(shared_module()).splitlines()
    return OBJECTS + "\n".join(line for line in lines if not line.startswith("target ")) + "\n"


# ---- workspace ----------------------------------------------------------------------------------------------------


def _define_acquire(module: ir.Module, name: str) -> None:
    """`acquire(context, bytes)`: 64-byte aligned memory from the program's free list, else new; null if there is none.

    The 16 bytes before a block hold its capacity and the address malloc gave.
    """
    function = ir.Function(module, ir.FunctionType(POINTER, [POINTER, I64]), name)
    context, size = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    fresh = function.append_basic_block("fresh")
    for slot in range(SLOTS):
        address = element(builder, context, i64(CONTEXT.slots + slot), I64)
        taken = builder.atomic_rmw("xchg", address, i64(0), "acq_rel")
        with builder.if_then(builder.icmp_unsigned("!=", taken, i64(0))):
            block = builder.inttoptr(taken, POINTER)
            with builder.if_then(builder.icmp_unsigned(">=", load_word(builder, block, -2), size)):
                builder.ret(block)
            builder.call(declare(module, "free", VOID, [POINTER]), [load_word(builder, block, -1, POINTER)])
            builder.branch(fresh)
    builder.branch(fresh)
    builder.position_at_end(fresh)
    raw = builder.call(declare(module, "malloc", POINTER, [I64]), [builder.add(size, i64(128))])
    with builder.if_then(builder.icmp_unsigned("==", builder.ptrtoint(raw, I64), i64(0))):
        builder.ret(raw)
    start = builder.and_(builder.add(builder.ptrtoint(raw, I64), i64(127)), i64(-64))
    block = builder.inttoptr(start, POINTER)
    store_word(builder, size, block, -2)
    store_word(builder, raw, block, -1)
    builder.ret(block)


def _define_release(module: ir.Module, name: str) -> None:
    """`release(context, block)`: back to the free list; freed if the list is full."""
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, POINTER]), name)
    context, block = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    value = builder.ptrtoint(block, I64)
    for slot in range(SLOTS):
        address = element(builder, context, i64(CONTEXT.slots + slot), I64)
        swapped = builder.cmpxchg(address, i64(0), value, "acq_rel", "monotonic")
        with builder.if_then(builder.extract_value(swapped, 1)):
            builder.ret_void()
    builder.call(declare(module, "free", VOID, [POINTER]), [load_word(builder, block, -1, POINTER)])
    builder.ret_void()


# ---- threads ------------------------------------------------------------------------------------------------------


def _define_parallel(module: ir.Module, name: str) -> None:
    """`parallel(context, kernel, data, count)`: `kernel(data, chunk)` for every chunk in range(count).

    Each task takes the next chunk from a shared counter, so that a slow thread holds nobody up; which thread runs a
    chunk never changes what it computes.
    """
    task = _define_task(module, f"{name}_task")
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, POINTER, POINTER, I64]), name)
    context, kernel, data, count = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    serial = function.append_basic_block("serial")
    job = alloca(builder, I64, 4)
    dims, arguments, steps = (alloca(builder, I64) for _ in range(3))
    store_word(builder, kernel, job, 0)
    store_word(builder, data, job, 1)
    store_word(builder, count, job, 2)
    store_word(builder, i64(0), job, 3)
    pool = load_word(builder, context, CONTEXT.pool, POINTER)
    with builder.if_then(builder.icmp_signed("==", load_word(builder, pool, POOL.state), i64(0)), likely=False):
        launch = load_word(builder, pool, POOL.launch, POINTER)
        call_pointer(builder, launch, VOID, [])
    ready = builder.icmp_signed("==", load_word(builder, pool, POOL.state), i64(1))
    with builder.if_then(builder.not_(ready), likely=False):
        builder.branch(serial)
    threads = builder.sext(call_pointer(builder, load_word(builder, pool, POOL.get_num_threads, POINTER), I32, []), I64)
    with builder.if_then(builder.icmp_signed("<=", threads, i64(1))):
        builder.branch(serial)
    builder.store(builder.select(builder.icmp_signed("<", threads, count), threads, count), dims)
    builder.store(job, arguments)
    builder.store(i64(0), steps)
    enter = load_word(builder, pool, POOL.parallel_for, POINTER)
    where = function_pointer(builder, task)
    threads = builder.trunc(threads, I32)
    call_pointer(builder, enter, VOID, [where, arguments, dims, steps, job, i64(1), i64(1), threads])
    builder.ret_void()
    builder.position_at_end(serial)
    builder.call(task, [arguments, dims, steps, job])
    builder.ret_void()


def _define_task(module: ir.Module, name: str) -> ir.Function:
    """What a thread of the pool runs, with the pool's signature (arguments, dimensions, steps, data)."""
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER] * 4), name)
    function.linkage = "internal"
    job = function.args[3]
    builder = ir.IRBuilder(function.append_basic_block())
    kernel, data = load_word(builder, job, 0, POINTER), load_word(builder, job, 1, POINTER)
    count = load_word(builder, job, 2)
    head, body, done = (function.append_basic_block(n) for n in ("head", "body", "done"))
    builder.branch(head)
    builder.position_at_end(head)
    chunk = builder.atomic_rmw("add", element(builder, job, i64(3), I64), i64(1), "acq_rel")
    builder.cbranch(builder.icmp_signed("<", chunk, count), body, done)
    builder.position_at_end(body)
    call_pointer(builder, kernel, VOID, [data, chunk])
    builder.branch(head)
    builder.position_at_end(done)
    builder.ret_void()
    return function


if __name__ == "__main__":
    from tracegrad.emit.runtime import SHARED

    with open(SHARED, "w", encoding="utf-8") as target:
        target.write(shared_text())
