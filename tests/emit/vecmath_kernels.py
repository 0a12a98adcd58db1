"""Compiles one loop per vecmath function through Numba, for the tests and the timings in docs/vecmath.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from tracegrad.emit import vecmath
from tracegrad.emit.vecmath.registry import ENTRIES

NAMES = sorted(vecmath.FUNCTIONS)
I64 = ir.IntType(64)


@dataclass(frozen=True)
class Kernels:
    """Every function's loop for one dtype, and the assembly of all of them."""

    dtype: type
    compiled: object
    assembly: str

    def run(self, name: str, *arrays: np.ndarray) -> np.ndarray:
        """The function over contiguous arrays of this dtype."""
        x, y = arrays[0], arrays[-1]
        out = np.empty(x.shape, self.dtype)
        self.compiled(NAMES.index(name), x, y, out)
        return out

    def __call__(self, name: str, *values: object) -> np.ndarray:
        arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(v, self.dtype)) for v in values))
        return self.run(name, *(np.ascontiguousarray(a) for a in arrays))

    def loops(self, name: str) -> list[list[str]]:
        """Innermost loops of the function's assembly: instructions from a label to the jump back to it."""
        start = re.search(rf"^{symbol(name, self.dtype)}:$", self.assembly, re.MULTILINE)
        assert start is not None
        body = self.assembly[start.end() :].split("\n.Lfunc_end")[0].splitlines()
        found, label_at = [], {}
        for i, line in enumerate(body):
            label = re.match(r"^(\.LBB\w+):", line)
            if label:
                label_at[label.group(1)] = i
            jump = re.match(r"\s+j\w+\s+(\.LBB\w+)", line)
            if jump and jump.group(1) in label_at:
                found.append([text.strip() for text in body[label_at[jump.group(1)] + 1 : i]])
        return found


def symbol(name: str, dtype: type) -> str:
    return f"tg_test_{name}_{np.dtype(dtype).name}"


def emit_loop(module: ir.Module, name: str, dtype: type) -> ir.Function:
    """void kernel(n, x, y, out): out[i] = name(x[i]) or name(x[i], y[i])."""
    kind = ir.DoubleType() if dtype is np.float64 else ir.FloatType()
    pointer = ir.PointerType()
    function = ir.Function(
        module, ir.FunctionType(ir.VoidType(), [I64, pointer, pointer, pointer]), symbol(name, dtype)
    )
    function.linkage = "internal"
    function.attributes.add("noinline")
    for arg in function.args[1:]:
        arg.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block())
    count, *inputs, out = function.args
    with cgutils.for_range_slice(builder, I64(0), count, I64(1)) as (i, _):

        def at(pointer: ir.Value) -> ir.Value:
            return builder.gep(pointer, [i], inbounds=True, source_etype=kind)

        values = [builder.load(at(p), typ=kind) for p in inputs[: ENTRIES[name].arity]]
        builder.store(vecmath.emit(name, builder, *values), at(out))
    builder.ret_void()
    return function


@intrinsic
def dispatch(typing_context, which, x, y, out):
    def codegen(context, builder, signature, args):
        dtype = np.float64 if signature.args[1].dtype == types.float64 else np.float32
        arrays = [context.make_array(t)(context, builder, v) for t, v in zip(signature.args[1:], args[1:])]
        (count,) = cgutils.unpack_tuple(builder, arrays[0].shape)
        pointers = [builder.bitcast(a.data, ir.PointerType()) for a in arrays]
        end = builder.append_basic_block("end")
        switch = builder.switch(args[0], end)
        for number, name in enumerate(NAMES):
            block = builder.append_basic_block(name)
            switch.add_case(I64(number), block)
            with builder.goto_block(block):
                builder.call(emit_loop(builder.module, name, dtype), [count, *pointers])
                builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.void(which, x, y, out), codegen


@cache
def kernels(dtype: type) -> Kernels:
    array = types.Array(types.float64 if dtype is np.float64 else types.float32, 1, "C")

    def entry(which, x, y, out):
        dispatch(which, x, y, out)

    compiled = njit(types.void(types.int64, array, array, array), nogil=True)(entry)
    return Kernels(dtype, compiled, compiled.inspect_asm(compiled.signatures[0]))
