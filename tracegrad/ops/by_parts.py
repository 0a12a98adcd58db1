"""Functions that NumPy applies part by part: to bins, runs of elements, rows, and where conditions hold."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError, TracegradIndexError
from tracegrad.numpy_protocols import implements, ufunc_methods
from tracegrad.ops.base import normalize_axis, shape_text
from tracegrad.ops.casting import astype
from tracegrad.ops.comparison import logical_not, logical_or
from tracegrad.ops.creation import ones_like, zeros_like
from tracegrad.ops.gather import ScatterAdd
from tracegrad.ops.indexing import getitem
from tracegrad.ops.joining import stack
from tracegrad.ops.operands import operand
from tracegrad.ops.reduction import accumulation_dtype
from tracegrad.ops.shape import moveaxis, reshape
from tracegrad.ops.taking import take


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """How often each integer occurs in a vector, or the sums of the weights there; of length max(x) + 1 or more.

    The length follows from the numbers, so a compiled function is recorded anew where it changes.
    """
    numbers, length = operand(x), operator.index(minlength)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iub" or length < 0:
        raise ArgumentError(
            f"np.bincount takes a vector of integers and a minlength of at least 0, got an array of shape "
            f"{shape_text(numbers.shape)} and dtype {numbers.dtype}, and {length}"
        )
    if weights is not None and np.shape(weights) != numbers.shape:
        raise ShapeError(
            f"np.bincount of {shape_text(numbers.shape)} numbers with weights of shape {shape_text(np.shape(weights))}",
            fix="give each number one weight",
        )
    if numbers.shape[0] != 0:
        if np.min(x) < 0:
            raise ArgumentError("np.bincount of negative numbers", fix="subtract the least one first")
        largest = np.max(x)
        if largest >= length:
            length = int(largest) + 1
    counted = ones_like(numbers, dtype=np.intp) if weights is None else astype(operand(weights), float)
    return ScatterAdd.apply(counted, astype(numbers, np.intp), shape=(length,))


def add_reduceat(array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    """Sums over runs, which begin at the indices and end before the next one; one element where that is not later."""
    x, starts = operand(array), np.asarray(indices)
    axis = normalize_axis(axis, x.ndim)
    size = operator.index(x.shape[axis])
    if out is not None or starts.ndim != 1 or starts.dtype.kind not in "iu":
        raise ArgumentError("np.add.reduceat takes a vector of integers, and no `out` here")
    if ((starts < 0) | (starts >= size)).any():
        raise TracegradIndexError(f"index {starts[(starts < 0) | (starts >= size)][0]} is out of range for size {size}")
    ends = [*starts[1:].tolist(), size]
    runs = [range(start, max(end, start + 1)) for start, end in zip(starts.tolist(), ends, strict=True)]
    places = np.array([i for run in runs for i in run], np.intp)
    run_of = np.repeat(np.arange(len(runs)), [len(run) for run in runs])
    first = moveaxis(astype(x, accumulation_dtype(x.dtype) if dtype is None else dtype), axis, 0)
    return moveaxis(ScatterAdd.apply(take(first, places, 0), run_of, shape=(len(runs), *first.shape[1:])), 0, axis)


ufunc_methods[np.add, "reduceat"] = add_reduceat


@implements(np.apply_along_axis)
def apply_along_axis(func1d: Callable[..., Any], axis: Any, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """`func1d` of each vector along an axis; its result, of any shape, stands where the axis was."""
    x = operand(arr)
    axis = normalize_axis(axis, x.ndim)
    rows = moveaxis(x, axis, -1)
    lead = tuple(operator.index(d) for d in rows.shape[:-1])
    results = [func1d(getitem(rows, i), *args, **kwargs) for i in itertools.product(*map(range, lead))]
    if not results:
        raise ShapeError(f"np.apply_along_axis over no vectors: an array of shape {shape_text(x.shape)}")
    joined = stack(results)
    joined = reshape(joined, (*lead, *joined.shape[1:]))
    added = joined.ndim - len(lead)
    return moveaxis(joined, tuple(range(len(lead), joined.ndim)), tuple(range(axis, axis + added)))


@implements(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """Each function of the elements of x where its condition holds, of several the last one; 0 where none does.

    As in NumPy a function gets these elements only, in a vector, a number may stand for one, and one more function than
    conditions is for where none holds.
    """
    x = operand(x)
    vector = np.isscalar(condlist) or (x.ndim and not isinstance(condlist[0], list) and np.ndim(condlist[0]) == 0)
    conditions = [operand(c) for c in ([condlist] if vector else condlist)]
    if len(funclist) == len(conditions) + 1:
        some = conditions[0]
        for c in conditions[1:]:
            some = logical_or(some, c)
        conditions.append(logical_not(some))
    if len(funclist) != len(conditions):
        raise ArgumentError(
            f"np.piecewise of {len(conditions)} conditions and {len(funclist)} functions",
            fix="give as many functions as conditions, or one more for where none holds",
        )
    y = zeros_like(x)
    for condition, function in zip(conditions, funclist, strict=True):
        part = getitem(x, condition)
        if part.shape[0] != 0:
            y[condition] = function(part, *args, **kwargs) if callable(function) else function
    return y
