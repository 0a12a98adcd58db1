"""Norms of vectors and matrices. At 0 their derivative is 0, the smallest subgradient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import absolute, conj, known_nonzero, multiply, square
from tracegrad.ops.base import normalize_axes, normalize_axis
from tracegrad.ops.casting import astype, real
from tracegrad.ops.comparison import equal, not_equal
from tracegrad.ops.operands import operand
from tracegrad.ops.power import power, sqrt
from tracegrad.ops.reduction import max as tensor_max
from tracegrad.ops.reduction import min as tensor_min
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.select import where
from tracegrad.ops.shape import expand_dims, moveaxis, ravel
from tracegrad.state import state
from tracegrad.tensor import Tensor

Axes = tuple[int, ...]


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """NumPy's norm: of all elements, of vectors along one axis, or of matrices along two.

    Vectors: any number p, ±inf. Matrices: None, 'fro', 'nuc', ±1, ±2, ±inf.
    """
    x = _floating(x)
    if axis is None:
        if ord is None or (ord in ("f", "fro") and x.ndim == 2) or (ord == 2 and x.ndim == 1):
            return _shaped(euclidean(ravel(x), (0,)), x.ndim, tuple(range(x.ndim)), keepdims)
        axes: Axes = tuple(range(x.ndim))
    else:
        given = axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(normalize_axis(i, x.ndim) for i in given)
    if len(axes) == 1:
        return _shaped(_vector_norm(x, 2 if ord is None else ord, axes), x.ndim, axes, keepdims)
    if len(axes) != 2:
        raise ShapeError(f"a norm of order {ord} is for vectors and matrices, not for {len(axes)} axes")
    if axes[0] == axes[1]:
        raise ShapeError("the two axes of a matrix norm are the same")
    return _shaped(_matrix_norm(x, ord, axes), x.ndim, axes, keepdims)


@implements(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm of vectors along one axis or several, which count as one."""
    x = _floating(x)
    axes = normalize_axes(axis, x.ndim)
    return _shaped(_vector_norm(x, ord, axes), x.ndim, axes, keepdims)


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of the matrices along the last two axes."""
    return norm(x, ord, (-2, -1), keepdims)


def _floating(x: Any) -> Any:
    x = operand(x)
    return x if x.dtype.kind in "fc" else astype(x, float)


def _shaped(result: Any, ndim: int, axes: Axes, keepdims: bool) -> Any:
    return expand_dims(result, axes) if keepdims and axes else result


def _square(x: Any) -> Any:
    return real(multiply(conj(x), x)) if x.dtype.kind == "c" else square(x)


def euclidean(x: Any, axes: Axes) -> Any:
    """The root of the sum of squares; where that is 0 nothing flows back."""
    total = tensor_sum(_square(x), axis=axes)
    if isinstance(total, Tensor) and known_nonzero(total._array) and state.trace is None:
        return sqrt(total)
    zero = equal(total, 0)
    return where(zero, total, sqrt(where(zero, 1, total)))


def _vector_norm(x: Any, order: Any, axes: Axes) -> Any:
    if order == 2:
        return euclidean(x, axes)
    if isinstance(order, str):
        raise ArgumentError(f"vectors have no norm of order {order!r}", fix="use a number, or inf")
    if order == 0:
        return tensor_sum(astype(not_equal(x, 0), np.zeros((), x.dtype).real.dtype), axis=axes)
    size = absolute(x)
    if order == math.inf:
        return _largest(size, axes)
    if order == -math.inf:
        return tensor_min(size, axis=axes)
    if order == 1:
        return tensor_sum(size, axis=axes)
    return _power_norm(size, order, axes)


def _power_norm(size: Any, p: Any, axes: Axes) -> Any:
    """The p-th root of the sum of p-th powers. Elements that are 0 are left out of it: their slope is 0."""
    none = equal(size, 0)
    powers = where(none, np.zeros((), size.dtype) if p > 0 else math.inf, power(where(none, 1, size), p))
    total = tensor_sum(powers, axis=axes)
    zero = equal(total, 0)
    return where(zero, total if p > 0 else math.inf, power(where(zero, 1, total), 1.0 / p))


def _largest(x: Any, axes: Any) -> Any:
    """The maximum along axes, and 0 where they have no elements: the norm of nothing."""
    empty = any(x.shape[i] == 0 for i in normalize_axes(axes, x.ndim))
    return tensor_max(x, axis=axes, initial=0) if empty else tensor_max(x, axis=axes)


def _matrix_norm(x: Any, order: Any, axes: Axes) -> Any:
    if order in (None, "f", "fro"):
        return euclidean(x, tuple(sorted(axes)))
    if order in (2, -2, "nuc"):
        return _spectral_norm(moveaxis(x, axes, (-2, -1)), order)
    if order not in (1, -1, math.inf, -math.inf):
        raise ArgumentError(f"a matrix norm of order {order!r}", fix="use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    rows, columns = axes
    summed, other = (rows, columns) if abs(order) == 1 else (columns, rows)
    sums = tensor_sum(absolute(x), axis=summed)
    extreme = _largest if order > 0 else tensor_min
    return extreme(sums, other - (other > summed))


def _spectral_norm(x: Any, order: Any) -> Any:
    """The greatest, the least, or the sum of the singular values; those that are 0 have slope 0."""
    from tracegrad.ops.factors import svdvals

    s = absolute(svdvals(x))
    return tensor_sum(s, axis=-1) if order == "nuc" else (_largest if order == 2 else tensor_min)(s, -1)
