"""Mean, variance and what else is composed of reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.ir.dims import product
from tracegrad.numpy_protocols import implements
from tracegrad.ops import reduction
from tracegrad.ops.arithmetic import Div, Mul, Square, Sub, conj
from tracegrad.ops.base import normalize_axes
from tracegrad.ops.casting import astype, number_dtype, real
from tracegrad.ops.comparison import Equal, NotEqual
from tracegrad.ops.operands import operand
from tracegrad.ops.power import Sqrt
from tracegrad.ops.reduction import NOT_GIVEN, Sum, finish, given, keep
from tracegrad.ops.select import Where, as_condition
from tracegrad.ops.shape import broadcast_to


def mean_dtype(dtype: np.dtype) -> np.dtype:
    """Integers and bools are averaged in float64; other dtypes stay."""
    return np.dtype(float) if dtype.kind in "iub" else dtype


def _count(x: Any, axis: tuple[int, ...], keepdims: bool, where: Any) -> Any:
    """How many elements each mean is taken over: a number, or per result element with `where`."""
    from tracegrad.ops.creation import dimension

    if not given(where) or where is True:
        return dimension(product(x.shape[i] for i in axis))
    chosen = broadcast_to(as_condition(where), x.shape)
    return Sum.apply(chosen, axis=axis, keepdims=keepdims, dtype=np.dtype(np.intp))


def _divide(total: Any, count: Any, dtype: np.dtype) -> Any:
    return Div.apply(total, astype(count, dtype) if hasattr(count, "dtype") else count)


@implements(np.mean)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = NOT_GIVEN
) -> Any:
    """NumPy's mean; integers are averaged in float64, float16 is summed in float32."""
    x = operand(a)
    wanted = mean_dtype(x.dtype) if dtype is None else number_dtype(dtype)
    inner = np.dtype(np.float32) if wanted == np.float16 and dtype is None else wanted
    axes = normalize_axes(axis, x.ndim)
    total = reduction.sum(x, axis=axes, dtype=inner, keepdims=keep(keepdims), where=where)
    result = astype(_divide(total, _count(x, axes, keep(keepdims), where), inner), wanted)
    return finish(result, out)


@implements(np.var)
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = NOT_GIVEN, mean: Any = NOT_GIVEN, correction: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    """NumPy's variance: the mean of |x - mean|² with `n - ddof` for n. A given `mean` must have kept its axes."""
    x = operand(a)
    wanted = mean_dtype(x.dtype) if dtype is None else number_dtype(dtype)
    inner = np.dtype(np.float32) if wanted == np.float16 and dtype is None else wanted
    axes = normalize_axes(axis, x.ndim)
    x = astype(x, inner)
    center = mean if given(mean) else _mean(x, axis=axes, dtype=inner, keepdims=True, where=where)
    deviation = Sub.apply(x, center)
    squares = real(Mul.apply(deviation, conj(deviation))) if inner.kind == "c" else Square.apply(deviation)
    total = reduction.sum(squares, axis=axes, keepdims=keep(keepdims), where=where)
    freedom = _freedom(_count(x, axes, keep(keepdims), where), correction if given(correction) else ddof)
    result = _divide(total, freedom, total.dtype)
    return finish(astype(result, wanted) if wanted == np.float16 else result, out)


_mean = mean


def _freedom(count: Any, ddof: Any) -> Any:
    if isinstance(count, int):
        return count - ddof if count > ddof else 0
    from tracegrad.ops.select import maximum

    return maximum(Sub.apply(count, ddof), 0)


@implements(np.std)
def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = NOT_GIVEN, mean: Any = NOT_GIVEN, correction: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    """NumPy's standard deviation. Where it is 0, because all elements are equal, the gradient is 0."""
    variance = var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    constant = Equal.apply(variance, 0)
    return finish(Where.apply(constant, 0, Sqrt.apply(Where.apply(constant, 1, variance))), out)


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """How many elements are not zero."""
    return reduction.sum(NotEqual.apply(operand(a), 0), axis=axis, dtype=np.intp, keepdims=keepdims)


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """Maximum minus minimum."""
    return finish(Sub.apply(reduction.max(a, axis, keepdims=keepdims), reduction.min(a, axis, keepdims=keepdims)), out)
