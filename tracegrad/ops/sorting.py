"""Sorting and searching. Orders come from NumPy, in compiled programs too; values are gathered along them.

Sorts are stable whatever `kind` says, so the gradient of equal elements follows the order they stand in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.autograd.node import type_of
from tracegrad.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from tracegrad.function import Operation
from tracegrad.ir.dims import product
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops import statistics
from tracegrad.ops.arithmetic import add, multiply, subtract
from tracegrad.ops.base import normalize_axes, normalize_axis
from tracegrad.ops.casting import astype
from tracegrad.ops.comparison import greater_equal, isnan, logical_not
from tracegrad.ops.creation import dimension
from tracegrad.ops.indexing import getitem
from tracegrad.ops.operands import lifted, operand
from tracegrad.ops.reduction import finish
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.select import maximum, where
from tracegrad.ops.shape import expand_dims, moveaxis, ravel, reshape, transpose
from tracegrad.ops.taking import take_along_axis

POSITIONS = np.dtype(np.intp)


class Argsort(Operation):
    """The stable order that sorts along an axis; NaN stands last."""

    name = "argsort"
    differentiable = False

    @staticmethod
    def forward(x: np.ndarray, *, axis: int) -> np.ndarray:
        return np.argsort(x, axis=axis, kind="stable")

    @staticmethod
    def infer(x: Type, *, axis: int) -> Type:
        return x.with_dtype(POSITIONS)


class SearchSorted(Operation):
    """Where in a sorted vector elements would be inserted, before equal ones (`left`) or after them (`right`)."""

    name = "searchsorted"
    differentiable = False

    @staticmethod
    def forward(a: np.ndarray, v: np.ndarray, *, side: str) -> np.ndarray:
        return np.asarray(np.searchsorted(a, v, side))

    @staticmethod
    def infer(a: Type, v: Type, *, side: str) -> Type:
        return Type(POSITIONS, v.shape)


class Digitize(Operation):
    """The bin of each element between edges that ascend or descend."""

    name = "digitize"
    differentiable = False

    @staticmethod
    def forward(x: np.ndarray, bins: np.ndarray, *, right: bool) -> np.ndarray:
        return np.asarray(np.digitize(x, bins, right))

    @staticmethod
    def infer(x: Type, bins: Type, *, right: bool) -> Type:
        return x.with_dtype(POSITIONS)


def _axis_of(a: Any, axis: Any) -> tuple[Any, int]:
    x = ravel(a) if axis is None else operand(a)
    if x.ndim == 0:
        raise ShapeError("a single number cannot be sorted along an axis", fix="pass axis=None")
    return x, 0 if axis is None else normalize_axis(axis, x.ndim)


@implements(np.argsort)
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """The positions that sort along an axis, of all elements with axis None."""
    x, axis = _axis_of(a, axis)
    return Argsort.apply(x, axis=axis)


@implements(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """Sorted along an axis, all elements with axis None; NaN comes last."""
    x, axis = _axis_of(a, axis)
    return take_along_axis(x, Argsort.apply(x, axis=axis), axis)


@implements(np.partition)
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    """Sorted altogether, which is one of the orders NumPy's partition allows."""
    return sort(a, axis)


@implements(np.argpartition)
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    """The positions that sort altogether, which is one of the orders NumPy's argpartition allows."""
    return argsort(a, axis)


@implements(np.lexsort)
def lexsort(keys: Any, axis: Any = -1) -> Any:
    """The positions that sort along an axis by the last of the keys, equal elements by the one before it, and so on."""
    keys = [operand(k) for k in (keys if isinstance(keys, (tuple, list)) else iter(keys))]
    x, axis = _axis_of(keys[0], axis)
    order = Argsort.apply(x, axis=axis)
    for key in keys[1:]:
        order = take_along_axis(order, Argsort.apply(take_along_axis(key, order, axis), axis=axis), axis)
    return order


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Positions at which the elements of `v` keep the vector `a` sorted."""
    if side not in ("left", "right"):
        raise ArgumentError(f"side must be 'left' or 'right', not {side!r}")
    x = operand(a)
    if x.ndim != 1:
        raise ShapeError("searchsorted looks in a vector", fix="flatten the array with ravel")
    return SearchSorted.apply(x if sorter is None else take_along_axis(x, operand(sorter), 0), operand(v), side=side)


@implements(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The number of the bin, between neighbouring edges in `bins`, that each element falls in."""
    return Digitize.apply(operand(x), operand(bins), right=bool(right))


# ---- what is read off sorted values -------------------------------------------------------------------------------


def _sorted_last(a: Any, axis: Any, as_float: bool = True) -> tuple[Any, tuple[int, ...]]:
    """The array sorted over some axes, which are made one at the end, and those axes."""
    x = operand(a)
    axes = normalize_axes(axis, x.ndim)
    if as_float and x.dtype.kind not in "fc":
        x = astype(x, float)
    kept = tuple(i for i in range(x.ndim) if i not in axes)
    flat = reshape(transpose(x, (*kept, *axes)), (*(x.shape[i] for i in kept), product(x.shape[i] for i in axes)))
    if flat.shape[-1] == 0:
        raise ShapeError("the median or quantile of no elements at all", fix="test the size first")
    return sort(flat), axes


def _is_empty(a: Any, axis: Any) -> bool:
    x = operand(a)
    return any(x.shape[i] == 0 for i in normalize_axes(axis, x.ndim))


def _kept(result: Any, axes: tuple[int, ...], keepdims: bool, leading: int = 0) -> Any:
    """With the axes the result was taken over as axes of size 1, behind `leading` new ones."""
    return expand_dims(result, tuple(leading + i for i in axes)) if keepdims and axes else result


@implements(np.median)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """The middle element, or the mean of the two in the middle; their gradient follows them. NaN wins."""
    if _is_empty(a, axis):
        return statistics.mean(a, axis, out=out, keepdims=keepdims)  # NaN
    ordered, axes = _sorted_last(a, axis)
    size = ordered.shape[-1]
    high = getitem(ordered, (..., size // 2))
    if isinstance(size, int):
        middle = high if size % 2 else multiply(add(getitem(ordered, (..., size // 2 - 1)), high), 0.5)
    else:
        # Odd in some calls, when both are the same element: halved first, so that their sum does not overflow.
        low = getitem(ordered, (..., (size - 1) // 2))
        middle = add(multiply(low, 0.5), multiply(high, 0.5))
    last = getitem(ordered, (..., -1))
    return finish(_kept(where(isnan(last), last, middle), axes, keepdims), out)


_ROUNDED = {"lower": np.floor, "higher": np.ceil, "nearest": np.rint}


def _check_method(method: str, kwargs: dict[str, Any]) -> None:
    if method not in ("linear", "midpoint", *_ROUNDED) or any(v is not None for v in kwargs.values()):
        raise UnsupportedError(
            f"np.quantile by the method {method!r} with {sorted(kwargs)}",
            fix="use method='linear', 'lower', 'higher', 'nearest' or 'midpoint', without weights",
        )


def _prepared(a: Any, q: Any, axis: Any, method: str, kwargs: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """The sorted elements, their axes, the dtype the weights take, and q as an operand."""
    _check_method(method, kwargs)
    if operand(a).dtype.kind == "c":
        raise DTypeError("quantiles of complex numbers, which have no order", fix="take np.abs, .real or .imag first")
    ordered, axes = _sorted_last(a, axis, method not in _ROUNDED)
    # As in NumPy, a number leaves the dtype alone and an array takes part in promotion.
    dtype = ordered.dtype if isinstance(q, (int, float)) or type_of(q).weak else None
    return ordered, axes, dtype, operand(q)


def _hundredth(q: Any) -> Any:
    """Percents as a fraction; a number stays one."""
    return q / 100 if isinstance(q, (int, float)) else np.true_divide(lifted(q), 100)


@implements(np.quantile)
def quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """Quantiles by the methods linear, lower, higher, nearest and midpoint; q between 0 and 1, of any shape."""
    ordered, axes, dtype, q = _prepared(a, q, axis, method, kwargs)
    place = multiply(ravel(lifted(q)), dimension(ordered.shape[-1] - 1))
    found = _at_places(moveaxis(ordered, -1, 0), place, method, dtype)
    if ordered.dtype.kind in "fc":
        last = getitem(ordered, (..., -1))
        found = where(isnan(last), last, found)
    found = reshape(found, (*q.shape, *found.shape[1:]))
    return finish(_kept(found, axes, keepdims, q.ndim), out)


def _at_places(rows: Any, place: Any, method: str, dtype: Any) -> Any:
    """Rows at fractional places, interpolated or rounded."""
    place = reshape(place, (place.shape[0], *(1,) * (rows.ndim - 1)))
    return _interpolated(lambda i: getitem(rows, ravel(i)), place, method, dtype)


def _interpolated(at: Callable[[Any], Any], place: Any, method: str, dtype: Any) -> Any:
    """What `at` gives for the places before and after fractional ones, interpolated or rounded."""
    if method in _ROUNDED:
        return at(astype(_ROUNDED[method](place), POSITIONS))
    low, high = np.floor(place), np.ceil(place)
    left, right = at(astype(low, POSITIONS)), at(astype(high, POSITIONS))
    weight = np.asarray(0.5, place.dtype) if method == "midpoint" else subtract(place, low)
    weight = weight if dtype is None else astype(weight, dtype)
    step = subtract(right, left)
    # From the nearer end, so that the result is monotonic and exact at both.
    near = greater_equal(weight, 0.5)
    return where(near, subtract(right, multiply(step, subtract(1, weight))), add(left, multiply(step, weight)))


@implements(np.percentile)
def percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """As quantile, with q between 0 and 100."""
    return quantile(a, _hundredth(q), axis, out, False, method, keepdims, **kwargs)


@implements(np.nanquantile)
def nanquantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """As quantile, of the elements that are numbers; NaN where there is none."""
    ordered, axes, dtype, q = _prepared(a, q, axis, method, kwargs)
    count = tensor_sum(logical_not(isnan(ordered)), axis=-1)
    last = maximum(subtract(count, 1), 0)
    place = multiply(reshape(lifted(q), (-1, *(1,) * count.ndim)), last)
    found = _interpolated(lambda i: _along_last(ordered, i), place, method, dtype)
    found = reshape(found, (*q.shape, *found.shape[1:]))
    return finish(_kept(found, axes, keepdims, q.ndim), out)


def _along_last(ordered: Any, places: Any) -> Any:
    """Per leading entry of `places` the elements there."""
    return moveaxis(take_along_axis(ordered, moveaxis(places, 0, -1), -1), -1, 0)


@implements(np.nanpercentile)
def nanpercentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """As nanquantile, with q between 0 and 100."""
    return nanquantile(a, _hundredth(q), axis, out, False, method, keepdims, **kwargs)


@implements(np.nanmedian)
def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """The median of the elements that are numbers; NaN where there is none."""
    if _is_empty(a, axis):
        return statistics.mean(a, axis, out=out, keepdims=keepdims)  # NaN
    return nanquantile(a, 0.5, axis, out, keepdims=keepdims)
