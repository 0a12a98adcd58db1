"""Differences of neighbours, derivatives and integrals of tabulated functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.dims import DimLike
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import add, divide, multiply, subtract
from tracegrad.ops.base import normalize_axes, normalize_axis
from tracegrad.ops.casting import astype
from tracegrad.ops.comparison import not_equal
from tracegrad.ops.joining import concatenate
from tracegrad.ops.operands import assume_non_negative, operand
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.shape import broadcast_to, ravel, reshape
from tracegrad.ops.slicing import slice_axis

_ABSENT: Any = object()


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = _ABSENT, append: Any = _ABSENT) -> Any:
    """Differences of neighbours, n times over."""
    x = operand(a)
    if n < 0:
        raise ArgumentError(f"the order of a difference may not be negative, got {n}")
    if x.ndim == 0:
        raise ShapeError("diff needs an array of at least one dimension")
    axis = normalize_axis(axis, x.ndim)
    if n and (prepend is not _ABSENT or append is not _ABSENT):
        ends = [None if v is _ABSENT else _end(v, x, axis) for v in (prepend, append)]
        x = concatenate([part for part in (ends[0], x, ends[1]) if part is not None], axis)
    for _ in range(n):
        size = _one_less(x.shape[axis])
        after, before = slice_axis(x, axis, 1 if size != 0 else 0, size), slice_axis(x, axis, 0, size)
        x = not_equal(after, before) if x.dtype.kind == "b" else subtract(after, before)
    return x


def _one_less(size: DimLike) -> DimLike:
    if isinstance(size, int):
        return max(size - 1, 0)
    assume_non_negative(size - 1)
    return size - 1


def _end(value: Any, x: Any, axis: int) -> Any:
    value = operand(value)
    return value if value.ndim else broadcast_to(value, tuple(1 if i == axis else d for i, d in enumerate(x.shape)))


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours of the flattened array, with something before and after."""
    x = ravel(ary)
    ends = [None if v is None else astype(ravel(v), x.dtype) for v in (to_begin, to_end)]
    return concatenate([part for part in (ends[0], diff(x), ends[1]) if part is not None])


@implements(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule, over the positions x or steps of dx."""
    y = operand(y)
    axis = normalize_axis(axis, y.ndim)
    if x is not None:
        x = operand(x)
        dx = diff(x) if x.ndim == 1 else diff(x, axis=axis)
        if x.ndim == 1:
            dx = reshape(dx, tuple(dx.shape[0] if i == axis else 1 for i in range(y.ndim)))
    size = _one_less(y.shape[axis])
    sums = add(slice_axis(y, axis, 1 if size != 0 else 0, size), slice_axis(y, axis, 0, size))
    return tensor_sum(multiply(multiply(dx, sums), 0.5), axis=axis)


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Derivatives of a tabulated function along its axes by central differences, one-sided at the ends.

    `varargs` are NumPy's: nothing, one spacing, or per axis a spacing or the positions. Of second order also where
    positions are unevenly spaced (B. Fornberg, Mathematics of Computation 51, 1988).
    """
    y = operand(f)
    y = y if y.dtype.kind in "fc" else astype(y, float)
    axes = (
        normalize_axes(axis, y.ndim)
        if axis is None
        else tuple(normalize_axis(i, y.ndim) for i in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    )
    spacings = varargs or (1.0,)
    spacings = spacings * len(axes) if len(spacings) == 1 and getattr(spacings[0], "ndim", 0) == 0 else spacings
    if len(spacings) != len(axes):
        raise ArgumentError(f"{len(spacings)} spacings do not go with {len(axes)} axes")
    if edge_order not in (1, 2):
        raise ArgumentError(f"edge_order must be 1 or 2, not {edge_order!r}")
    slopes = tuple(astype(_slope(y, i, operand(h), edge_order), y.dtype) for i, h in zip(axes, spacings, strict=True))
    return slopes[0] if len(slopes) == 1 else slopes


def _slope(y: Any, axis: int, spacing: Any, edge_order: int) -> Any:
    """The derivative along one axis from steps h before and after each position."""
    size = y.shape[axis]
    if isinstance(size, int) and size < edge_order + 1:
        raise ShapeError(f"the gradient needs at least {edge_order + 1} elements along axis {axis}, there are {size}")
    if spacing.ndim:
        if spacing.shape != (size,):
            raise ShapeError(f"positions of shape {spacing.shape} do not go with an axis of size {size}")
        steps = reshape(diff(spacing), tuple(size - 1 if i == axis else 1 for i in range(y.ndim)))
    else:
        steps = broadcast_to(spacing, tuple(size - 1 if i == axis else 1 for i in range(y.ndim)))
    rises = divide(diff(y, axis=axis), steps)
    first, last = slice_axis(rises, axis, 0, 1), slice_axis(rises, axis, size - 2, 1)
    if size == 2:
        return concatenate([first, last], axis)
    before, after = slice_axis(steps, axis, 0, size - 2), slice_axis(steps, axis, 1, size - 2)
    left, right = slice_axis(rises, axis, 0, size - 2), slice_axis(rises, axis, 1, size - 2)
    inner = divide(add(multiply(after, left), multiply(before, right)), add(before, after))
    if edge_order == 2:
        first = _extrapolated(
            first, slice_axis(rises, axis, 1, 1), slice_axis(steps, axis, 0, 1), slice_axis(steps, axis, 1, 1)
        )
        ends = slice_axis(steps, axis, size - 2, 1), slice_axis(steps, axis, size - 3, 1)
        last = _extrapolated(last, slice_axis(rises, axis, size - 3, 1), *ends)
    return concatenate([first, inner, last], axis)


def _extrapolated(rise: Any, next_rise: Any, step: Any, next_step: Any) -> Any:
    """The slope at an end from the two rises next to it, exact for parabolas."""
    bend = divide(subtract(next_rise, rise), add(step, next_step))
    return subtract(rise, multiply(bend, step))
