"""Sequences of samples: interpolation, convolution, correlation, phases without jumps."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ir.dims import DimLike
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import absolute, add, conj, divide, multiply, remainder, subtract
from tracegrad.ops.base import normalize_axis, shape_text
from tracegrad.ops.casting import astype, result_type
from tracegrad.ops.comparison import equal, greater, less, logical_and
from tracegrad.ops.cumulative import cumsum
from tracegrad.ops.differences import diff
from tracegrad.ops.exempt import replaced
from tracegrad.ops.indexing import getitem
from tracegrad.ops.joining import concatenate
from tracegrad.ops.linalg import matmul
from tracegrad.ops.operands import lifted, operand, smaller
from tracegrad.ops.select import clip, where
from tracegrad.ops.shape import flip, reshape
from tracegrad.ops.slicing import Unslice, slice_axis
from tracegrad.ops.sorting import argsort, searchsorted
from tracegrad.ops.stop import stop_gradient
from tracegrad.ops.taking import take
from tracegrad.ops.windows import sliding_windows


@implements(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Values at `x` of the line through the points (xp, fp), xp ascending; float64 or complex128, as in NumPy.

    Differentiable in x, xp and fp; at a point of the line the slope is that of the piece to its right.
    """
    x, xp, fp = operand(x), lifted(xp), lifted(fp)
    if xp.ndim != 1 or xp.shape != fp.shape or xp.shape[0] == 0:
        raise ShapeError(
            f"interp needs vectors xp and fp of the same length, got {shape_text(xp.shape)} and {shape_text(fp.shape)}"
        )
    if "c" in (x.dtype.kind, xp.dtype.kind):
        raise DTypeError("interp at complex positions, which have no order", fix="take .real or np.abs of x and xp")
    x, xp = astype(x, float), astype(xp, float)
    fp = astype(fp, complex if fp.dtype.kind == "c" else float)
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, period)
        left = right = None
    first, last = getitem(xp, 0), getitem(xp, -1)
    left, right = getitem(fp, 0) if left is None else left, getitem(fp, -1) if right is None else right
    size = xp.shape[0]
    inner = add(getitem(fp, 0), multiply(x, 0)) if size == 1 else _between(x, xp, fp, size)
    return where(less(x, first), left, where(greater(x, last), right, inner))


def _between(x: Any, xp: Any, fp: Any, size: DimLike) -> Any:
    """On the piece each x lies on, by the point-slope form; exactly the given values at the points."""
    piece = clip(subtract(searchsorted(stop_gradient(xp), stop_gradient(x), "right"), 1), 0, size - 2)
    x0, x1, f0, f1 = take(xp, piece), take(xp, add(piece, 1)), take(fp, piece), take(fp, add(piece, 1))
    line = add(multiply(divide(subtract(f1, f0), subtract(x1, x0)), subtract(x, x0)), f0)
    return replaced(equal(x, x0), f0, replaced(equal(x, x1), f1, line))


def _periodic(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """The points of one period in order, with the last before it and the first after it."""
    period = abs(period)
    x, xp = remainder(x, period), remainder(xp, period)
    order = argsort(stop_gradient(xp))
    xp, fp = take(xp, order), take(fp, order)
    ends = slice_axis(xp, 0, xp.shape[0] - 1, 1), slice_axis(xp, 0, 0, 1)
    xp = concatenate([subtract(ends[0], period), xp, add(ends[1], period)])
    return x, xp, concatenate([slice_axis(fp, 0, fp.shape[0] - 1, 1), fp, slice_axis(fp, 0, 0, 1)])


# ---- convolution --------------------------------------------------------------------------------------------------


def _vectors(a: Any, v: Any, mode: str, name: str) -> tuple[Any, Any]:
    pair = tuple(reshape(z, (1,)) if z.ndim == 0 else z for z in (lifted(a), lifted(v)))
    if any(z.ndim != 1 or z.shape[0] == 0 for z in pair):
        shapes = " and ".join(shape_text(z.shape) for z in pair)
        raise ShapeError(f"np.{name} takes two vectors that are not empty, got {shapes}")
    if mode not in ("full", "same", "valid"):
        raise ArgumentError(f"mode must be 'full', 'same' or 'valid', not {mode!r}")
    return pair


def _slid(x: Any, weights: Any, mode: str) -> Any:
    """The sums of products of `weights` with what lies under them as they slide over x, which is not shorter."""
    n, m = x.shape[0], weights.shape[0]
    start, size = {"full": (0, n + m - 1), "same": (m - 1 - m // 2, n), "valid": (m - 1, n - m + 1)}[mode]
    before, total = m - 1 - start, size + m - 1
    if mode != "valid":
        x = Unslice.apply(x, shape=(total,), start=(before,), step=(1,), fill=0)
    return matmul(weights, sliding_windows(x, (m,), (1,), (1,), (size,)))


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """The convolution of two vectors, sums over k of a[k] v[p - k]."""
    x, y = _vectors(a, v, mode, "convolve")
    if smaller(x.shape[0], y.shape[0]) != y.shape[0]:
        x, y = y, x
    return _slid(x, flip(y), mode)


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """The correlation of two vectors, sums over k of a[p + k] conj(v[k])."""
    x, y = _vectors(a, v, mode, "correlate")
    if smaller(x.shape[0], y.shape[0]) != y.shape[0]:
        return conj(flip(_slid(y, conj(x), mode)))
    return _slid(x, conj(y), mode)


@implements(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Any:
    """Phases with multiples of the period added, so that neighbours differ by half a period at most.

    The multiples are constants to derivatives.
    """
    x = operand(p)
    axis = normalize_axis(axis, x.ndim)
    dtype = result_type(x, period)
    if x.shape[axis] == 0:
        return astype(x, dtype)
    steps = stop_gradient(diff(x, axis=axis))
    high, rest = np.divmod(period, 2) if dtype.kind in "iu" else (period / 2, 0)
    turned = subtract(remainder(add(steps, high), period), high)
    if rest == 0:
        turned = where(logical_and(equal(turned, -high), greater(steps, 0)), high, turned)
    correction = where(less(absolute(steps), period / 2 if discont is None else discont), 0, subtract(turned, steps))
    x = astype(x, dtype)
    rest_of_x = slice_axis(x, axis, 1, steps.shape[axis])
    return concatenate([slice_axis(x, axis, 0, 1), add(rest_of_x, cumsum(correction, axis))], axis)
