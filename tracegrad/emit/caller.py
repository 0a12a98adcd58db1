"""`tg_call`: the native function Python calls. It checks, allocates and runs; see `layout.SPEC` for what it reads.

It is written against the C structure of an ndarray, which is part of NumPy's stable ABI (`PyArrayObject_fields`).
"""

from __future__ import annotations

import sys

import llvmlite.ir as ir

from tracegrad.emit.layout import CONTEXT, ERROR, SPEC
from tracegrad.emit.llvm import (
    I8,
    I32,
    I64,
    POINTER,
    VOID,
    alloca,
    call_pointer,
    counted_loop,
    declare,
    element,
    i64,
    load_word,
    store_word,
)

_HEAD = object.__basicsize__
_WORD = 8
# byte offsets in an ndarray and in a dtype
_TYPE = _HEAD - _WORD
_DATA, _NDIM, _DIMENSIONS, _DESCR, _FLAGS = _HEAD, _HEAD + 8, _HEAD + 16, _HEAD + 40, _HEAD + 48
_BYTE_ORDER, _TYPE_NUMBER = _HEAD + _WORD + 2, _HEAD + _WORD + 4
_C_CONTIGUOUS_AND_ALIGNED = 0x0001 | 0x0100
_SWAPPED = ord(">" if sys.byteorder == "little" else "<")
_MAX_NDIM = 64


def _field(builder: ir.IRBuilder, record: ir.Value, offset: int, type: ir.Type) -> ir.Value:
    return builder.load(element(builder, record, i64(offset), I8), typ=type)


def _null(builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    return builder.icmp_unsigned("==", builder.ptrtoint(pointer, I64), i64(0))


def _dynamic(builder: ir.IRBuilder, type: ir.Type, count: ir.Value) -> ir.Value:
    """`count` elements on the stack."""
    slot = builder.alloca(type, count)
    slot.type = POINTER
    return slot


class _Caller:
    """The function under construction and the values its parts share."""

    def __init__(self, module: ir.Module, name: str):
        self.function = ir.Function(module, ir.FunctionType(POINTER, [POINTER, POINTER, I64]), name)
        self_, self.args, self.count = self.function.args
        self.builder = b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.explain = self.function.append_basic_block("explain")
        self.context = _field(b, self_, _DATA, POINTER)
        self.spec = load_word(b, self.context, CONTEXT.spec, POINTER)
        self.inputs, self.outputs = load_word(b, self.spec, SPEC.inputs), load_word(b, self.spec, SPEC.outputs)
        self.symbols = load_word(b, self.spec, SPEC.symbols)
        self.position = alloca(b, I64)

    def seek(self, position: ir.Value) -> None:
        self.builder.store(position, self.position)

    def next(self) -> ir.Value:
        """The specification's next word."""
        position = self.builder.load(self.position, typ=I64)
        self.builder.store(self.builder.add(position, i64(1)), self.position)
        return self.at(self.spec, position)

    def at(self, block: ir.Value, index: ir.Value, type: ir.Type = I64) -> ir.Value:
        return self.builder.load(element(self.builder, block, index, type), typ=type)

    def put(self, value: ir.Value, block: ir.Value, index: ir.Value) -> None:
        self.builder.store(value, element(self.builder, block, index, value.type))

    def require(self, condition: ir.Value) -> None:
        """Go on if `condition` holds, else let Python find out what is wrong with the arguments."""
        proceed = self.function.append_basic_block("proceed")
        self.builder.cbranch(condition, proceed, self.explain)
        self.builder.position_at_end(proceed)

    def after_symbols(self) -> ir.Value:
        return self.builder.add(self.builder.mul(self.symbols, i64(2)), i64(SPEC.header))

    def size(self) -> ir.Value:
        """The dimension the specification's next word stands for."""
        b = self.builder
        word = self.next()
        known = b.icmp_signed(">=", word, i64(0))
        position = b.select(known, i64(0), b.not_(word))
        return b.select(known, word, self.at(self.table, position))

    def call_python(self, name: str, result: ir.Type, args: list[ir.Value]) -> ir.Value:
        function = declare(self.builder.module, name, result, [a.type for a in args])
        return self.builder.call(function, args)


def define_call(module: ir.Module, name: str) -> ir.Function:
    """`PyObject *call(PyObject *self, PyObject *const *args, Py_ssize_t count)` (METH_FASTCALL)."""
    c = _Caller(module, name)
    b = c.builder
    c.shape, c.error, c.bytes = alloca(b, I64, _MAX_NDIM), alloca(b, I64, ERROR.words), alloca(b, I64)
    store_word(b, i64(0), c.error, ERROR.shared)
    c.require(b.icmp_signed("==", c.count, c.inputs))
    c.buffers = _dynamic(b, POINTER, b.add(c.inputs, c.outputs))
    c.objects = _dynamic(b, POINTER, c.outputs)
    c.table = _dynamic(b, I64, b.add(load_word(b, c.spec, SPEC.table), i64(1)))
    _read_arguments(c)
    _read_sizes(c)
    _check_shapes(c)
    _make_outputs(c)
    status = _run(c)
    failed, succeeded = c.function.append_basic_block("failed"), c.function.append_basic_block("succeeded")
    b.cbranch(b.icmp_signed("==", status, i64(0)), succeeded, failed)

    b.position_at_end(succeeded)
    _return_outputs(c)

    b.position_at_end(failed)
    with counted_loop(b, i64(0), c.outputs) as i:
        c.call_python("Py_DecRef", VOID, [c.at(c.objects, i, POINTER)])
    store_word(b, status, c.error, ERROR.status)
    record = c.call_python("PyLong_FromVoidPtr", POINTER, [c.error])
    handler = load_word(b, c.context, CONTEXT.fail, POINTER)
    result = c.call_python("PyObject_CallOneArg", POINTER, [handler, record])
    c.call_python("Py_DecRef", VOID, [record])
    b.ret(result)

    b.position_at_end(c.explain)
    handler = load_word(b, c.context, CONTEXT.explain, POINTER)
    b.ret(c.call_python("PyObject_Vectorcall", POINTER, [handler, c.args, c.count, ir.Constant(POINTER, None)]))
    return c.function


def _read_arguments(c: _Caller) -> None:
    """Every argument must be exactly an ndarray of the right dtype and ndim, C-contiguous, aligned, in native order."""
    b = c.builder
    array_type = load_word(b, c.context, CONTEXT.array_type)
    c.seek(c.after_symbols())
    with counted_loop(b, i64(0), c.inputs) as i:
        array = c.at(c.args, i, POINTER)
        c.require(b.icmp_unsigned("==", _field(b, array, _TYPE, I64), array_type))
        descr = _field(b, array, _DESCR, POINTER)
        number = b.sext(_field(b, descr, _TYPE_NUMBER, I32), I64)
        right = b.or_(b.icmp_signed("==", number, c.next()), b.icmp_signed("==", number, c.next()))
        right = b.and_(right, b.icmp_signed("!=", _field(b, descr, _BYTE_ORDER, I8), ir.Constant(I8, _SWAPPED)))
        ndim = c.next()
        right = b.and_(right, b.icmp_signed("==", b.sext(_field(b, array, _NDIM, I32), I64), ndim))
        layout = b.and_(_field(b, array, _FLAGS, I32), ir.Constant(I32, _C_CONTIGUOUS_AND_ALIGNED))
        c.require(b.and_(right, b.icmp_signed("==", layout, ir.Constant(I32, _C_CONTIGUOUS_AND_ALIGNED))))
        c.put(_field(b, array, _DATA, POINTER), c.buffers, i)
        c.seek(b.add(b.load(c.position, typ=I64), ndim))


def _read_sizes(c: _Caller) -> None:
    """Fill the table of sizes: each symbol from its argument, then what the program derives from them."""
    b = c.builder
    c.seek(i64(SPEC.header))
    with counted_loop(b, i64(0), c.symbols) as k:
        array = c.at(c.args, c.next(), POINTER)
        c.put(c.at(_field(b, array, _DIMENSIONS, POINTER), c.next()), c.table, k)
    derive = load_word(b, c.context, CONTEXT.dims, POINTER)
    with b.if_then(b.not_(_null(b, derive))):
        call_pointer(b, derive, VOID, [c.table])


def _check_shapes(c: _Caller) -> None:
    b = c.builder
    with counted_loop(b, i64(0), c.inputs) as i:
        c.next()
        c.next()
        ndim = c.next()
        dimensions = _field(b, c.at(c.args, i, POINTER), _DIMENSIONS, POINTER)
        with counted_loop(b, i64(0), ndim, name="axis") as axis:
            c.require(b.icmp_signed("==", c.at(dimensions, axis), c.size()))


def _make_outputs(c: _Caller) -> None:
    """A new array for each output."""
    b = c.builder
    c.first_output = b.load(c.position, typ=I64)
    kind = load_word(b, c.context, CONTEXT.array_type, POINTER)
    null, zero = ir.Constant(POINTER, None), ir.Constant(I32, 0)
    with counted_loop(b, i64(0), c.outputs) as o:
        c.next()
        number, _, ndim = c.next(), c.next(), c.next()
        with counted_loop(b, i64(0), ndim, name="axis") as axis:
            c.put(c.size(), c.shape, axis)
        arguments = [kind, b.trunc(ndim, I32), c.shape, b.trunc(number, I32), null, null, zero, zero, null]
        array = c.call_python("tg_PyArray_New", POINTER, arguments)
        with b.if_then(_null(b, array), likely=False):
            with counted_loop(b, i64(0), o, name="made") as made:
                c.call_python("Py_DecRef", VOID, [c.at(c.objects, made, POINTER)])
            b.ret(null)
        c.put(array, c.objects, o)
        c.put(_field(b, array, _DATA, POINTER), c.buffers, b.add(c.inputs, o))


def _run(c: _Caller) -> ir.Value:
    """Run the program, without the GIL if its context says so. The result is its status."""
    b = c.builder
    run = load_word(b, c.context, CONTEXT.run, POINTER)
    status = alloca(b, I64)
    arguments = [c.buffers, c.table, c.context, c.error]
    release = b.icmp_signed("!=", load_word(b, c.context, CONTEXT.release_gil), i64(0))
    with b.if_else(release) as (without, within):
        with without:
            thread = c.call_python("PyEval_SaveThread", POINTER, [])
            b.store(call_pointer(b, run, I64, arguments), status)
            c.call_python("PyEval_RestoreThread", VOID, [thread])
        with within:
            b.store(call_pointer(b, run, I64, arguments), status)
    return b.load(status, typ=I64)


def _return_outputs(c: _Caller) -> None:
    """Return the tuple of outputs, after filling those that are copies of another buffer."""
    b = c.builder
    c.seek(c.first_output)
    result = c.call_python("PyTuple_New", POINTER, [c.outputs])
    with b.if_then(_null(b, result), likely=False):
        with counted_loop(b, i64(0), c.outputs, name="made") as made:
            c.call_python("Py_DecRef", VOID, [c.at(c.objects, made, POINTER)])
        b.ret(result)
    with counted_loop(b, i64(0), c.outputs) as o:
        source, _, size, ndim = c.next(), c.next(), c.next(), c.next()
        b.store(size, c.bytes)
        with counted_loop(b, i64(0), ndim, name="axis"):
            b.store(b.mul(b.load(c.bytes, typ=I64), c.size()), c.bytes)
        with b.if_then(b.icmp_signed(">=", source, i64(0))):
            target = c.at(c.buffers, b.add(c.inputs, o), POINTER)
            c.call_python("memcpy", POINTER, [target, c.at(c.buffers, source, POINTER), b.load(c.bytes, typ=I64)])
        c.call_python("PyTuple_SetItem", I32, [result, o, c.at(c.objects, o, POINTER)])
    b.ret(result)
