"""Running sums, products and extremes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tracegrad.errors import ShapeError
from tracegrad.function import Operation
from tracegrad.ir.lowering import Library
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements, ufunc_methods
from tracegrad.ops.arithmetic import chain, conj, multiply
from tracegrad.ops.base import is_whole, normalize_axis, shape_text
from tracegrad.ops.casting import astype, number_dtype
from tracegrad.ops.comparison import greater, isnan, logical_and, logical_not, logical_or
from tracegrad.ops.creation import dimension
from tracegrad.ops.gather import ScatterAdd
from tracegrad.ops.joining import concatenate
from tracegrad.ops.operands import operand, positions
from tracegrad.ops.reduction import accumulation_dtype, finish
from tracegrad.ops.select import where
from tracegrad.ops.shape import broadcast_to, ravel, reshape
from tracegrad.ops.slicing import Unslice, slice_axis
from tracegrad.ops.taking import index_arrays_along


class CumulativeOperation(Operation):
    """Running results along an axis, from the end if `reverse`. `combine` names a ufunc: add, multiply, maximum, …"""

    lower = Library("cumulative")

    @staticmethod
    def forward(x: np.ndarray, *, combine: str, axis: int, reverse: bool) -> np.ndarray:
        ufunc = getattr(np, combine)
        if not reverse:
            return ufunc.accumulate(x, axis, dtype=x.dtype)
        return np.flip(ufunc.accumulate(np.flip(x, axis), axis, dtype=x.dtype), axis)

    @staticmethod
    def infer(x: Type, *, combine: str, axis: int, reverse: bool) -> Type:
        return x.with_shape(x.shape)


class CumulativeSum(CumulativeOperation):
    """Running sums; `combine` is add."""

    name = "cumulative_sum"
    saves = ("",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (CumulativeSum.apply(g, **{**ctx.attrs, "reverse": not ctx.attrs["reverse"]}),)


class CumulativeProduct(CumulativeOperation):
    """Running products; `combine` is multiply.

    An element's cotangent is the product before it times what comes after it, s[i] = g[i] + x[i+1] s[i+1]: there is no
    division, so zeros are as good as any number.
    """

    name = "cumulative_product"
    saves = ("0y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        axis, reverse = ctx.attrs["axis"], ctx.attrs["reverse"]
        before = shifted(ctx.output, axis, reverse, fill=1)
        factors = shifted(conj(ctx.inputs[0]), axis, not reverse)
        return (chain(LinearRecurrence.apply(factors, g, axis=axis, reverse=not reverse), before),)


class CumulativeExtreme(CumulativeOperation):
    """Running maxima or minima; `combine` is maximum or minimum. The first element to reach one gets its cotangent."""

    name = "cumulative_extreme"
    saves = ("0y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        x, y = ctx.inputs[0], ctx.output
        axis, reverse = ctx.attrs["axis"], ctx.attrs["reverse"]
        former = shifted(y, axis, reverse)
        better = greater(x, former) if ctx.attrs["combine"] == "maximum" else greater(former, x)
        better = logical_or(better, logical_and(isnan(x), logical_not(isnan(former))))
        size = x.shape[axis]
        along = reshape(positions(size), tuple(size if i == axis else 1 for i in range(x.ndim)))
        # Before the first element there is none; its own position is also what counts until something is better.
        source = (
            where(better, along, dimension(size - 1) if reverse else 0) if size != 0 else broadcast_to(along, x.shape)
        )
        chosen = CumulativeExtreme.apply(
            source, combine="minimum" if reverse else "maximum", axis=axis, reverse=reverse
        )
        return (ScatterAdd.apply(g, *index_arrays_along(g, chosen, axis), shape=x.shape),)


def shifted(x: Any, axis: int, reverse: bool = False, fill: Any = 0) -> Any:
    """Each element one place further along the axis (back if `reverse`); the place left empty is `fill`."""
    size = x.shape[axis]
    if size == 0:
        return x
    start = 0 if reverse else 1
    kept = slice_axis(x, axis, 1 - start, size - 1)
    starts = tuple(start if i == axis else 0 for i in range(x.ndim))
    return Unslice.apply(kept, shape=x.shape, start=starts, step=(1,) * x.ndim, fill=fill)


class LinearRecurrence(Operation):
    """`y[i] = a[i] y[i-1] + b[i]` along an axis, from the end if `reverse`; what precedes the first element is 0.

    A y[i-1] that is exactly 0 contributes 0 whatever its factor is, so that a zero cotangent never becomes NaN.
    """

    name = "linear_recurrence"
    lower = Library("recurrence")
    saves = ("0y", "0")

    @staticmethod
    def forward(a: np.ndarray, b: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
        out = np.array(b, np.result_type(a, b))
        factors, rows = np.moveaxis(a, axis, 0), np.moveaxis(out, axis, 0)
        order = range(len(rows))[::-1] if reverse else range(len(rows))
        for former, i in itertools.pairwise(order):
            rows[i, ...] += np.where(rows[former] == 0, 0, factors[i] * rows[former])
        return out

    @staticmethod
    def infer(a: Type, b: Type, *, axis: int, reverse: bool) -> Type:
        if a.shape != b.shape:
            raise ShapeError(f"factors of shape {shape_text(a.shape)} and terms of shape {shape_text(b.shape)}")
        return Type(np.result_type(a.dtype, b.dtype), a.shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        axis, reverse = ctx.attrs["axis"], ctx.attrs["reverse"]
        factors = shifted(conj(ctx.inputs[0]), axis, not reverse)
        adjoint = LinearRecurrence.apply(factors, g, axis=axis, reverse=not reverse)
        needs = ctx.needs_input_grad
        return multiply(adjoint, conj(shifted(ctx.output, axis, reverse))) if needs[0] else None, adjoint


# ---- running results ----------------------------------------------------------------------------------------------


def _cumulative(a: Any, axis: Any, dtype: Any, out: Any, combine: str) -> Any:
    x = operand(a)
    if axis is None or (is_whole(axis, x.ndim) and combine in ("add", "multiply")):
        x, axis = ravel(x), 0
    axis = normalize_axis(axis, x.ndim)
    if combine in ("add", "multiply"):
        x = astype(x, accumulation_dtype(x.dtype) if dtype is None else number_dtype(dtype))
    else:
        x = astype(x, x.dtype if dtype is None else dtype)
    operation = {"add": CumulativeSum, "multiply": CumulativeProduct}.get(combine, CumulativeExtreme)
    return finish(operation.apply(x, combine=combine, axis=axis, reverse=False), out)


@implements(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Running sums along an axis, over all elements without one."""
    return _cumulative(a, axis, dtype, out, "add")


@implements(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Running products; their derivative is exact at zeros."""
    return _cumulative(a, axis, dtype, out, "multiply")


def cummax(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Running maxima, as np.maximum.accumulate; the first of equal elements gets the gradient."""
    return _cumulative(a, axis, dtype, out, "maximum")


def cummin(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Running minima, as np.minimum.accumulate; the first of equal elements gets the gradient."""
    return _cumulative(a, axis, dtype, out, "minimum")


def _accumulate(function: Any) -> Any:
    def accumulate(array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Running extremes along an axis, the first unless told otherwise."""
        return function(array, axis, dtype, out)

    return accumulate


ufunc_methods[np.maximum, "accumulate"] = _accumulate(cummax)
ufunc_methods[np.minimum, "accumulate"] = _accumulate(cummin)


@implements(np.nancumsum)
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Running sums in which NaN counts as 0."""
    x = operand(a)
    return cumsum(where(isnan(x), np.zeros((), x.dtype), x), axis, dtype, out)


@implements(np.nancumprod)
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Running products in which NaN counts as 1."""
    x = operand(a)
    return cumprod(where(isnan(x), np.ones((), x.dtype), x), axis, dtype, out)


def _from_initial(x: Any, axis: Any, include: bool, running: Any, initial: int, dtype: Any, out: Any) -> Any:
    x = operand(x)
    if axis is None:
        if x.ndim != 1:
            raise ShapeError("the axis must be named for an array of other than one dimension", fix="pass axis=")
        axis = 0
    result = running(x, axis, dtype)
    if include:
        shape = tuple(1 if i == normalize_axis(axis, x.ndim) else d for i, d in enumerate(x.shape))
        result = concatenate([broadcast_to(np.full((), initial, result.dtype), shape), result], axis)
    return finish(result, out)


@implements(np.cumulative_sum)
def cumulative_sum(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Any:
    """Running sums, with the empty one in front if asked for."""
    return _from_initial(x, axis, include_initial, cumsum, 0, dtype, out)


@implements(np.cumulative_prod)
def cumulative_prod(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Any:
    """Running products, with the empty one in front if asked for."""
    return _from_initial(x, axis, include_initial, cumprod, 1, dtype, out)
