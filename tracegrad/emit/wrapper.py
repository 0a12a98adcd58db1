"""What `tg_call` needs on Python's side: the specification it reads, the errors it raises, the callable itself."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tracegrad.emit.callbacks import take_exception
from tracegrad.emit.interface import Array, IndexCheck, Interface
from tracegrad.emit.layout import ERROR, LINALG_ERRORS, SPEC, STATUS
from tracegrad.ir.dims import DimLike, evaluate, symbol


def derived_dims(program: Interface) -> tuple[DimLike, ...]:
    """The sizes of inputs and outputs that are neither integers nor symbols."""
    plain = {symbol(name) for name in program.sizes}
    found: dict[DimLike, None] = {}
    for name in (*program.inputs, *program.outputs):
        for dim in program.buffer(name).shape:
            if not isinstance(dim, int) and dim not in plain:
                found[dim] = None
    return tuple(found)


def specification(program: Interface, derived: tuple[DimLike, ...]) -> np.ndarray:
    """The words of `layout.SPEC` for a program."""
    symbols = program.symbols
    table = {symbol(name): position for name, position in symbols.items()}
    table.update({dim: len(symbols) + position for position, dim in enumerate(derived)})
    words = [0] * SPEC.header
    words[SPEC.inputs], words[SPEC.outputs] = len(program.inputs), len(program.outputs)
    words[SPEC.table], words[SPEC.symbols] = len(table), len(symbols)
    for position, axis in program.sizes.values():
        words += [position, axis]
    for name in program.inputs:
        buffer = program.buffer(name)
        words += [*_type_numbers(buffer.dtype), *_dims(buffer, table)]
    roots = [program.buffer(name).alias or name for name in (*program.inputs, *program.outputs)]
    for position, name in enumerate(program.outputs, start=len(program.inputs)):
        first = roots.index(roots[position])
        buffer = program.buffer(name)
        words += [-1 if first == position else first, buffer.dtype.num, buffer.dtype.itemsize, *_dims(buffer, table)]
    return np.array(words, np.int64)


def _type_numbers(dtype: np.dtype) -> tuple[int, int]:
    """The numbers of the two C types with this dtype's size, of which NumPy may use either."""
    same = [dtype.num, *(np.dtype(c).num for c in np.typecodes["AllInteger"] if np.dtype(c) == dtype)]
    return min(same), max(same)


def _dims(buffer: Array, table: dict[DimLike, int]) -> list[int]:
    return [len(buffer.shape), *(d if isinstance(d, int) else ~table[d] for d in buffer.shape)]


class Refused(TypeError, ValueError):
    """Arguments that do not conform; nothing has been run."""


class Explain:
    """Called with arguments that `tg_call` has refused: raises the error that says why."""

    def __init__(self, program: Interface):
        self.program = program

    def __call__(self, *arrays: Any) -> None:
        program = self.program
        if len(arrays) != len(program.inputs):
            raise Refused(f"{program.name} takes {len(program.inputs)} arrays, not {len(arrays)}")
        for position, (name, array) in enumerate(zip(program.inputs, arrays)):
            self._check_type(f"argument {position} ({name})", program.buffer(name), array)
        sizes = {n: arrays[position].shape[axis] for n, (position, axis) in program.sizes.items()}
        for position, (name, array) in enumerate(zip(program.inputs, arrays)):
            shape = tuple(evaluate(d, sizes) for d in program.buffer(name).shape)
            if array.shape != shape:
                raise Refused(f"argument {position} ({name}) must have shape {shape}, not {array.shape}")
        raise AssertionError(f"{program.name} refused arrays that conform")

    @staticmethod
    def _check_type(which: str, buffer: Array, array: Any) -> None:
        if type(array) is not np.ndarray:
            raise Refused(f"{which} must be an ndarray, not {type(array).__name__}")
        if array.dtype != buffer.dtype or not array.dtype.isnative:
            raise Refused(f"{which} must have dtype {buffer.dtype}, not {array.dtype}")
        if array.ndim != len(buffer.shape):
            raise Refused(f"{which} must have {len(buffer.shape)} dimensions, not {array.ndim}")
        if not (array.flags.c_contiguous and array.flags.aligned):
            raise Refused(f"{which} must be C-contiguous and aligned")


class Fail:
    """Called with the address of a failed run's error record: raises the error."""

    def __init__(self, program: Interface, checks: tuple[IndexCheck, ...]):
        self.program, self.checks = program, checks

    def __call__(self, record: int) -> None:
        words = (ctypes.c_int64 * ERROR.words).from_address(record)
        status = words[ERROR.status]
        if status == STATUS.index:
            raise index_error(self.checks[words[ERROR.check]], words[ERROR.value], words[ERROR.extent])
        if status == STATUS.host:
            raise take_exception()
        if status == STATUS.memory:
            raise MemoryError(f"no memory for the workspace of {self.program.name}")
        if status == STATUS.blas:
            raise OverflowError(f"a matrix with {words[ERROR.value]} rows or columns is too large for BLAS")
        if status == STATUS.linalg:
            raise np.linalg.LinAlgError(LINALG_ERRORS[words[ERROR.value]])
        if status == STATUS.interrupt:
            raise KeyboardInterrupt
        raise AssertionError(f"{self.program.name} ended with status {status}")


def index_error(check: IndexCheck, value: int, extent: int) -> IndexError:
    """NumPy's error for an index out of range. Attributes: `location`, `axis`, `extent`, `value`."""
    error = IndexError(f"index {value} is out of bounds for axis {check.axis} with size {extent}")
    error.location, error.axis, error.extent, error.value = check.location, check.axis, extent, value
    return error


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_METH_FASTCALL = 0x0080


def make_caller(function: int, context: np.ndarray, name: str) -> Any:
    """The builtin function whose `self` is `context` and whose code is `tg_call`."""
    definition = _MethodDef(name.encode(), function, _METH_FASTCALL, None)
    context.keep.append(definition)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(definition), context, None)
