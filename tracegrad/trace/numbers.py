"""Python's integers beside arrays, while they are recorded: NumPy's rules on those that a dtype cannot hold.

A graph knows a Python integer as an int64 and its loops compute in the dtype of the arrays beside it. NumPy refuses
integers outside of that dtype, but in comparisons, which are exact. So they are looked at here, where they are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.function import Operation
from tracegrad.ir.lowering import Elementwise
from tracegrad.ir.types import Type
from tracegrad.ops.arithmetic import Div
from tracegrad.ops.casting import fitting
from tracegrad.ops.comparison import Comparison
from tracegrad.ops.select import Where
from tracegrad.ops.shape import BroadcastTo

_INT64, _UINT64 = np.iinfo(np.int64), np.iinfo(np.uint64)


def beyond(number: Any) -> bool:
    """Whether it is a Python integer that int64 cannot hold, so that a graph has no weak value for it."""
    return type(number) is int and not _INT64.min <= number <= _INT64.max


def of_numpy(op: type[Operation], number: int, args: Sequence[Any]) -> Any:
    """A Python integer as what stands for it beside the other operands: itself, if int64 holds it."""
    if not beyond(number):
        return number
    dtypes = [a.dtype for a in args if hasattr(a, "dtype")]
    if op is Div or any(d.kind in "fc" for d in dtypes):
        return float(number)
    return np.uint64(number) if np.dtype(np.uint64) in dtypes and 0 <= number <= _UINT64.max else number


def python_number(value: Any) -> np.ndarray:
    """A Python number as an array. Raises NumPy's OverflowError for integers beyond int64."""
    return np.asarray(value, np.int64 if type(value) is int else None)


def check_range(op: type[Operation], args: tuple[Any, ...], type_: Type) -> None:
    """Raise NumPy's OverflowError for a Python integer that the dtype of an operation on integers cannot hold."""
    if type_.dtype.kind not in "iu" or type_.weak or op is Where or not isinstance(op.lower, Elementwise):
        return
    for number in args:
        if type(number) is int:
            fitting(number, type_.dtype)


def known_comparison(op: type[Operation], args: tuple[Any, ...]) -> Any:
    """What comparing integers with a number beyond int64, or below 0 beside uint64, gives: the same for each of them.

    None where it depends on them.
    """
    if not issubclass(op, Comparison):
        return None
    for number, position in ((args[0], 1), (args[1], 0)):
        other = args[position]
        dtype = getattr(other, "dtype", None)
        if type(number) is not int or dtype is None or dtype.kind not in "iu":
            continue
        limits = np.iinfo(dtype)
        if (beyond(number) or dtype == np.uint64) and not limits.min <= number <= limits.max:
            pair = (dtype.type(0), number) if position == 0 else (number, dtype.type(0))
            return BroadcastTo.apply(np.bool_(op.ufunc(*pair)), shape=np.shape(other))
    return None
