"""What every part of the emitter needs of llvmlite: types, constants, loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import llvmlite.ir as ir
import numpy as np

I1, I8, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
F32, F64 = ir.FloatType(), ir.DoubleType()
POINTER = ir.PointerType()
VOID = ir.VoidType()

ELEMENTWISE = ("contract",)  # a*b + c may round once; nothing that changes what NaN and infinity mean
SUM = ("contract", "reassoc")  # additionally any order of summation, so that reductions vectorise


def value_type(dtype: np.dtype) -> ir.Type:
    """The LLVM type of a scalar in a register; bool is i1. Raises TypeError for dtypes without one."""
    if dtype.kind == "b":
        return I1
    if dtype.kind in "iu":
        return ir.IntType(8 * dtype.itemsize)
    if dtype.kind == "f" and dtype.itemsize in (4, 8):
        return F32 if dtype.itemsize == 4 else F64
    raise TypeError(f"the emitter has no scalars of dtype {dtype}")


def has_scalars(dtype: np.dtype) -> bool:
    """Whether elements of this dtype fit registers; those of the others (complex, float16) only pass through memory."""
    return dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize in (4, 8))


def memory_type(dtype: np.dtype) -> ir.Type:
    """The LLVM type of an array element; bool is i8."""
    return I8 if dtype.kind == "b" else value_type(dtype)


def constant(dtype: np.dtype, value: object) -> ir.Constant:
    """A scalar constant of `dtype`, cast to it as NumPy does."""
    item = np.asarray(value).astype(dtype).item()
    return ir.Constant(value_type(dtype), int(item) if dtype.kind in "biu" else float(item))


def i64(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


def element(builder: ir.IRBuilder, pointer: ir.Value, index: ir.Value, type: ir.Type) -> ir.Value:
    """The address of `pointer[index]`."""
    if isinstance(index, ir.Constant) and index.constant == 0:
        return pointer
    return builder.gep(pointer, [index], inbounds=True, source_etype=type)


def load_word(builder: ir.IRBuilder, pointer: ir.Value, index: int, type: ir.Type = I64) -> ir.Value:
    """Word number `index` behind `pointer`, as an i64 or a pointer."""
    return builder.load(element(builder, pointer, i64(index), type), typ=type)


def store_word(builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value, index: int) -> None:
    builder.store(value, element(builder, pointer, i64(index), value.type))


def alloca(builder: ir.IRBuilder, type: ir.Type, count: int | None = None, align: int | None = None) -> ir.Value:
    """Stack memory, reserved once in the function's entry block. The result is an opaque pointer."""
    with builder.goto_entry_block():
        slot = builder.alloca(type, count)
        if align:
            slot.align = align
    slot.type = POINTER
    return slot


def intrinsic(builder: ir.IRBuilder, name: str, *args: ir.Value, overloads: int = 1) -> ir.Value:
    """Call an LLVM intrinsic. Its first `overloads` argument types choose the variant; the result is like the first."""
    kinds = [a.type for a in args]
    function = builder.module.declare_intrinsic(name, kinds[:overloads], ir.FunctionType(kinds[0], kinds))
    return builder.call(function, args)


def declare(module: ir.Module, name: str, result: ir.Type, args: list[ir.Type]) -> ir.Function:
    """The external function `name`, declared once per module."""
    found = module.globals.get(name)
    return found if found is not None else ir.Function(module, ir.FunctionType(result, args), name)


def run_once(function: ir.Function) -> None:
    """Leave the function as it is written: all of it together runs once per call of a program, or of a chunk, and that
    takes long. Its code is not worth the time of LLVM's passes."""
    function.attributes.add("noinline")
    function.attributes.add("optnone")


def function_pointer(builder: ir.IRBuilder, function: ir.Function) -> ir.Value:
    """The address of `function` as an opaque pointer."""
    return builder.bitcast(function, POINTER)


def call_pointer(builder: ir.IRBuilder, pointer: ir.Value, result: ir.Type, args: list[ir.Value]) -> ir.Value:
    """Call the C function behind `pointer`."""
    type = ir.FunctionType(result, [a.type for a in args])
    # llvmlite asks a callee for its typed pointer, and a bitcast to one is dropped as a cast to the same type
    callee = builder.inttoptr(builder.ptrtoint(pointer, I64), type.as_pointer())
    return builder.call(callee, args)


@contextmanager
def counted_loop(
    builder: ir.IRBuilder, begin: ir.Value, end: ir.Value, step: ir.Value | None = None, name: str = "i",
    unroll: int = 1, few: bool = False, interleave: int = 1,
) -> Iterator[ir.Value]:  # fmt: skip
    """`for i in range(begin, end, step)` around what the with-block emits, which LLVM repeats `unroll` times. A loop of
    `few` iterations is not vectorised, which would only make more code; one that is advances by `interleave` vectors at
    a time where LLVM is not to choose that itself."""
    head, body, done = (builder.append_basic_block(f"{name}.{part}") for part in ("head", "body", "done"))
    before = builder.block
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(begin.type, name)
    index.add_incoming(begin, before)
    builder.cbranch(builder.icmp_signed("<", index, end), body, done)
    builder.position_at_end(body)
    yield index
    following = builder.add(index, ir.Constant(begin.type, 1) if step is None else step, flags=("nsw",))
    index.add_incoming(following, builder.block)
    back = builder.branch(head)
    if unroll > 1:
        back.set_metadata("llvm.loop", _identity(builder.module, "llvm.loop.unroll.count", ir.Constant(I32, unroll)))
    elif interleave > 1:
        back.set_metadata(
            "llvm.loop", _identity(builder.module, "llvm.loop.interleave.count", ir.Constant(I32, interleave))
        )
    elif few:
        back.set_metadata("llvm.loop", _identity(builder.module, "llvm.loop.vectorize.enable", ir.Constant(I1, 0)))
    builder.position_at_end(done)


def _identity(module: ir.Module, name: str, value: ir.Constant) -> ir.MDValue:
    """The identity of a loop, a node that contains itself, with what LLVM is told of the loop in it."""
    request = module.add_metadata([name, value])
    identity = module.add_metadata([request, ir.Constant(I64, len(module.metadata))])
    identity.operands = (identity, request)
    return identity


def choose(
    builder: ir.IRBuilder, condition: ir.Value, then: Callable[[], ir.Value], otherwise: Callable[[], ir.Value]
) -> ir.Value:
    """The value of one of two expressions, of which only the chosen one is evaluated."""
    yes, no, join = (builder.append_basic_block(part) for part in ("when", "else", "join"))
    builder.cbranch(condition, yes, no)
    incoming = []
    for block, make in ((yes, then), (no, otherwise)):
        builder.position_at_end(block)
        incoming.append((make(), builder.block))
        builder.branch(join)
    builder.position_at_end(join)
    result = builder.phi(incoming[0][0].type)
    for value, block in incoming:
        result.add_incoming(value, block)
    return result


def minimum(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def maximum(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed(">", a, b), a, b)
