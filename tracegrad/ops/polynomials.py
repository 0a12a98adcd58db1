"""Polynomials as vectors of coefficients, that of the highest power first."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError, UnsupportedError
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import add, divide, multiply, negative
from tracegrad.ops.base import shape_text
from tracegrad.ops.casting import astype
from tracegrad.ops.creation import ones_like, zeros, zeros_like
from tracegrad.ops.factors import pinv
from tracegrad.ops.indexing import getitem
from tracegrad.ops.joining import concatenate, stack
from tracegrad.ops.linalg import matmul
from tracegrad.ops.operands import lifted, operand
from tracegrad.ops.power import sqrt
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.shape import expand_dims, ravel
from tracegrad.ops.slicing import slice_axis


@implements(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    """The values at `x`, by Horner's rule."""
    coefficients, x = lifted(p), operand(x)
    y = zeros_like(x)
    for i in range(coefficients.shape[0]):
        y = add(multiply(y, x), getitem(coefficients, i))
    return y


@implements(np.vander)
def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    """Columns of the powers of a vector, N - 1 to 0, or 0 to N - 1."""
    x = operand(x)
    if x.ndim != 1:
        raise ShapeError(f"vander takes a vector, got an array of shape {shape_text(x.shape)}")
    x = astype(x, np.promote_types(x.dtype, int))
    count = operator.index(x.shape[0] if N is None else N)
    powers = [ones_like(x)]
    for _ in range(count - 1):
        powers.append(multiply(powers[-1], x))
    if count == 0:
        return zeros((x.shape[0], 0), dtype=x.dtype)
    return stack(powers if increasing else powers[::-1], axis=1)


@implements(np.polyadd)
def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials."""
    x, y = (ravel(lifted(a)) for a in (a1, a2))
    missing = x.shape[0] - y.shape[0]
    if missing < 0:
        x, y, missing = y, x, -missing
    return add(x, concatenate([zeros((missing,), dtype=y.dtype), y]) if missing != 0 else y)


@implements(np.polysub)
def polysub(a1: Any, a2: Any) -> Any:
    """The difference of two polynomials."""
    return polyadd(a1, negative(lifted(a2)))


@implements(np.polyder)
def polyder(p: Any, m: int = 1) -> Any:
    """The m-th derivative of a polynomial."""
    p = operand(p)
    if m < 0:
        raise ArgumentError(f"the order of a derivative may not be negative, got {m}", fix="use polyint")
    for _ in range(m):
        n = max(operator.index(p.shape[0]) - 1, 0)
        p = multiply(slice_axis(p, 0, 0, n), np.arange(n, 0, -1))
    return p


@implements(np.polyint)
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The m-th antiderivative of a polynomial, with constants `k` (0) of integration."""
    p = operand(p)
    if m < 0:
        raise ArgumentError(f"the order of an antiderivative may not be negative, got {m}", fix="use polyder")
    constants = np.zeros(m) if k is None else lifted(np.broadcast_to(k, (m,)) if np.ndim(k) == 0 else k)
    for i in range(m):
        n = operator.index(p.shape[0])
        p = concatenate([divide(p, np.arange(n, 0, -1)), slice_axis(constants, 0, i, 1)])
    return p


@implements(np.polyfit)
def polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    """The polynomial of degree `deg` nearest to the points (x, y) in least squares, weighted by w."""
    if full or cov:
        raise UnsupportedError("np.polyfit with full or cov", fix="compute them from np.vander and np.linalg.lstsq")
    x, y = lifted(x), lifted(y)
    if x.ndim != 1 or y.ndim not in (1, 2) or x.shape[0] != y.shape[0]:
        raise ShapeError(f"polyfit of arrays of shapes {shape_text(x.shape)} and {shape_text(y.shape)}")
    x, y = (astype(z, np.promote_types(z.dtype, float)) for z in (x, y))
    left = vander(x, operator.index(deg) + 1)
    if w is not None:
        w = astype(lifted(w), float)
        left, y = multiply(left, expand_dims(w, 1)), multiply(y, expand_dims(w, 1) if y.ndim == 2 else w)
    scale = sqrt(tensor_sum(multiply(left, left), axis=0))
    cut = operator.index(x.shape[0]) * np.finfo(x.dtype).eps if rcond is None else rcond
    found = matmul(pinv(divide(left, scale), cut), y)
    return divide(found, expand_dims(scale, 1) if y.ndim == 2 else scale)
