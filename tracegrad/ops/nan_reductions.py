"""Reductions that leave NaN out: np.nansum, np.nanmean, np.nanmax, …"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import UnsupportedError
from tracegrad.numpy_protocols import implements
from tracegrad.ops import reduction, statistics
from tracegrad.ops.base import is_whole
from tracegrad.ops.comparison import Equal, IsNan, LogicalNot
from tracegrad.ops.operands import operand
from tracegrad.ops.reduction import NOT_GIVEN, finish, given
from tracegrad.ops.select import Where


def _numbers(x: Any, where: Any) -> Any:
    """Where the elements to reduce are."""
    numbers = LogicalNot.apply(IsNan.apply(x))
    return numbers if not given(where) or where is True else numbers & where


@implements(np.nansum)
def nansum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = NOT_GIVEN,
    where: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    """The sum with NaN counted as 0."""
    x = operand(a)
    return reduction.sum(x, axis, dtype, out, keepdims, initial, _numbers(x, where))


@implements(np.nanprod)
def nanprod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = NOT_GIVEN,
    where: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    """The product with NaN counted as 1."""
    x = operand(a)
    return reduction.prod(x, axis, dtype, out, keepdims, initial, _numbers(x, where))


@implements(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = NOT_GIVEN
) -> Any:
    """The mean of the elements that are numbers; NaN where there is none."""
    x = operand(a)
    axis = None if is_whole(axis, x.ndim) else axis
    return statistics.mean(x, axis, dtype, out, keepdims, where=_numbers(x, where))


@implements(np.nanvar)
def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = NOT_GIVEN, mean: Any = NOT_GIVEN, correction: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    """The variance of the elements that are numbers."""
    x = operand(a)
    axis = None if is_whole(axis, x.ndim) else axis
    chosen = _numbers(x, where)
    return statistics.var(x, axis, dtype, out, ddof, keepdims, where=chosen, mean=mean, correction=correction)


@implements(np.nanstd)
def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = NOT_GIVEN, mean: Any = NOT_GIVEN, correction: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    """The standard deviation of the elements that are numbers; its gradient is 0 where it is 0."""
    x = operand(a)
    axis = None if is_whole(axis, x.ndim) else axis
    chosen = _numbers(x, where)
    return statistics.std(x, axis, dtype, out, ddof, keepdims, where=chosen, mean=mean, correction=correction)


def _extreme(function: Any, worst: float, x: Any, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    if x.dtype.kind != "f":
        if x.dtype.kind == "c":
            raise UnsupportedError("nanmax and nanmin of complex values", fix="reduce np.abs(x), or the parts of x")
        return function(x, axis, out, keepdims, initial, where)
    chosen = _numbers(x, where)
    numbers = Where.apply(chosen, x, worst)
    if given(initial) and initial is not None:
        return function(numbers, axis, out, keepdims, initial)
    result = function(numbers, axis, keepdims=keepdims)
    none = Equal.apply(reduction.sum(chosen, axis, keepdims=keepdims), 0)
    return finish(Where.apply(none, np.nan, result), out)


@implements(np.nanmax)
def nanmax(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = NOT_GIVEN, where: Any = NOT_GIVEN
) -> Any:
    """The maximum of the elements that are numbers; NaN where there is none."""
    return _extreme(reduction.max, -np.inf, operand(a), axis, out, keepdims, initial, where)


@implements(np.nanmin)
def nanmin(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = NOT_GIVEN, where: Any = NOT_GIVEN
) -> Any:
    """The minimum of the elements that are numbers; NaN where there is none."""
    return _extreme(reduction.min, np.inf, operand(a), axis, out, keepdims, initial, where)
