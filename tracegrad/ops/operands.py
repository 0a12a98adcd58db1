"""Normal forms of arguments: operands as Tensors or arrays, sizes as ints or symbolic dimensions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, UnsupportedError
from tracegrad.ir.dims import Dim, DimLike
from tracegrad.ir.sizes import Size, active, plain
from tracegrad.state import state
from tracegrad.tensor import Tensor, check_array


def operand(x: Any) -> Any:
    """A Tensor or ndarray as it is; numbers and nested lists of numbers as an ndarray, as NumPy reads them."""
    if type(x) is Tensor or type(x) is np.ndarray:
        return x
    if isinstance(x, (Tensor, np.ndarray)):
        return check_array(x) if isinstance(x, np.ndarray) else x
    return x.number if isinstance(x, Size) else check_array(np.asarray(x))


def lifted(x: Any) -> Any:
    """An operand that computations may be recorded on: while tracing, an ndarray becomes a value of the trace.

    What is computed from a captured array with plain NumPy would be frozen into the trace; what is computed from the
    lifted one is computed anew in each call.
    """
    x = operand(x)
    trace = state.trace
    return x if trace is None or isinstance(x, Tensor) else Tensor._traced(trace, trace.lift(x))


def as_dim(value: Any) -> DimLike:
    """One size or position as an int, or the symbolic dimension itself. Raises ArgumentError."""
    if isinstance(value, Dim):
        return value
    try:
        return operator.index(value)
    except TypeError as error:
        raise ArgumentError(
            f"expected an integer, got {type(value).__name__}", fix="convert it with int(...)"
        ) from error


def as_shape(shape: Any) -> tuple[DimLike, ...]:
    """A size or a sequence of sizes as a tuple."""
    if isinstance(shape, (tuple, list)):
        return tuple([d if type(d) is int else as_dim(d) for d in shape])
    return static_integers(shape) if isinstance(shape, (Tensor, np.ndarray)) else (as_dim(shape),)


def remembered(question: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of a shape and an int, None or tuple of ints that keeps its answers where all dimensions are numbers:
    a small eager operation would spend most of its time on them."""
    kept = functools.lru_cache(maxsize=4096)(question)

    def ask(shape: Any, wanted: Any) -> Any:
        for dims in (shape, wanted if type(wanted) is tuple else (wanted,)):
            for dim in dims:
                if type(dim) is not int and dim is not None:
                    return question(shape, wanted)
        return kept(shape, wanted)

    return functools.wraps(question)(ask)


def static_integers(values: Any) -> tuple[DimLike, ...]:
    """A sequence or array of integers as Python ints. Those of an array or Tensor are guarded while tracing."""
    if not isinstance(values, (Tensor, np.ndarray)):
        return tuple(map(as_dim, values))
    if values.dtype.kind not in "iu":
        raise ArgumentError(f"expected integers, got an array of {values.dtype}", fix="convert it with .astype(int)")
    if state.trace is None:
        array = values._array if isinstance(values, Tensor) else values
        return tuple(array.ravel().tolist())
    from tracegrad.ops.indexing import getitem

    flat = lifted(values).reshape(-1)
    return tuple(guarded_int(getitem(flat, i)) for i in range(flat.shape[0]))


def known_non_negative(dim: DimLike) -> bool:
    """Whether `dim >= 0` for all its symbols may be, as far as coefficients show; else whether it is so in this call,
    and then in all that the trace serves."""
    if active.sizes is not None:
        return active.sizes.non_negative(plain(dim))
    return dim >= 0 if isinstance(dim, int) else all(coefficient >= 0 for _, coefficient in dim.terms)


def assume_non_negative(dim: DimLike) -> bool:
    """Whether `dim >= 0`: for a symbolic one in this call, and the trace then holds for calls in which it is alike.

    Where the sizes of the call are not known, it is taken to be so.
    """
    if isinstance(dim, int):
        return dim >= 0
    if active.sizes is not None:
        return active.sizes.non_negative(plain(dim))
    if state.trace is not None and not known_non_negative(dim):
        state.trace.assumptions.add(dim)
    return True


def guarded_int(x: Any) -> int:
    """The number a 0-d integer value has in this run; a trace holds only for calls in which it is the same."""
    trace = state.trace
    if trace is None or not isinstance(x, Tensor):
        return int(x._array if isinstance(x, Tensor) else x)
    var = trace.lift(x)
    number = int(trace.value(var))
    trace.guards.append((var, number))
    return number


def positions(size: DimLike) -> Any:
    """0, 1, …, size - 1."""
    if state.trace is None:
        return np.arange(size)
    from tracegrad.ops.creation import Iota

    attrs = {"shape": (size,), "axis": 0, "start": 0, "step": 1, "dtype": np.dtype(np.intp)}
    return state.trace.apply(Iota, (), attrs)


def smaller(a: DimLike, b: DimLike) -> DimLike:
    """The smaller of two sizes. Raises UnsupportedError where their symbols leave that open."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    if known_non_negative(a - b):
        return b
    if known_non_negative(b - a):
        return a
    raise UnsupportedError(
        f"which of the sizes {a} and {b} is smaller differs from call to call",
        fix="compile for fixed sizes, or make the sizes equal",
    )
