"""Mean, variance and what else is composed of reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ShapeError
from tracegrad.ir.dims import product
from tracegrad.numpy_protocols import implements
from tracegrad.ops import reduction
from tracegrad.ops.arithmetic import Div, Mul, Square, Sub, conj
from tracegrad.ops.base import normalize_axes, normalize_axis, shape_text
from tracegrad.ops.casting import astype, imag, number_dtype, real
from tracegrad.ops.comparison import Equal, NotEqual
from tracegrad.ops.creation import dimension, full_like
from tracegrad.ops.diagonal import Diagonal
from tracegrad.ops.joining import concatenate
from tracegrad.ops.linalg import matmul
from tracegrad.ops.operands import lifted, operand
from tracegrad.ops.power import Sqrt
from tracegrad.ops.reduction import NOT_GIVEN, Sum, finish, given, keep
from tracegrad.ops.select import Where, as_condition, clip
from tracegrad.ops.shape import broadcast_to, expand_dims, reshape, squeeze, transpose


def mean_dtype(dtype: np.dtype) -> np.dtype:
    """Integers and bools are averaged in float64; other dtypes stay."""
    return np.dtype(float) if dtype.kind in "iub" else dtype


def _count(x: Any, axis: tuple[int, ...], keepdims: bool, where: Any) -> Any:
    """How many elements each mean is taken over: a number, or per result element with `where`."""
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
    center = mean if given(mean) else _mean(x, axis=axes, dtype=inner, keepdims=True, where=where)
    # As NumPy, which takes the differences in what `x - center` gives: the dtype is that of both sums.
    deviation = Sub.apply(x, center)
    size = deviation.dtype.kind == "c" and x.dtype.kind in "bc"
    squares = real(Mul.apply(deviation, conj(deviation))) if size else Square.apply(deviation)
    summed = squares.dtype if dtype is None and x.dtype.kind == "c" else inner
    total = reduction.sum(squares, axis=axes, dtype=summed, keepdims=keep(keepdims), where=where)
    freedom = _freedom(_count(x, axes, keep(keepdims), where), correction if given(correction) else ddof)
    result = _divide(total, freedom, total.dtype)
    return finish(astype(result, wanted if summed == inner else summed), out)


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
    root = Where.apply(constant, 0, Sqrt.apply(Where.apply(constant, 1, variance)))
    return finish(astype(root, variance.dtype), out)


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """How many elements are not zero."""
    return reduction.sum(NotEqual.apply(operand(a), 0), axis=axis, dtype=np.intp, keepdims=keepdims)


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """Maximum minus minimum."""
    return finish(Sub.apply(reduction.max(a, axis, keepdims=keepdims), reduction.min(a, axis, keepdims=keepdims)), out)


@implements(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = NOT_GIVEN) -> Any:
    """The mean with weights of the shape of `a`, or of its `axis`; with `returned` their sum, too."""
    x, kept = operand(a), given(keepdims) and keep(keepdims)
    axes = normalize_axes(axis, x.ndim)
    if weights is None:
        result = mean(x, axes, keepdims=kept)
        return (result, full_like(result, _count(x, axes, kept, NOT_GIVEN))) if returned else result
    w = lifted(weights)
    common = np.result_type(x.dtype, w.dtype, *([float] if x.dtype.kind in "iub" else []))
    if w.shape != x.shape:
        named = () if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
        order = [normalize_axis(i, x.ndim) for i in named]
        if w.shape != tuple(x.shape[i] for i in order):
            raise ShapeError(
                f"average of an array of shape {shape_text(x.shape)} over axis {axis} with weights of shape "
                f"{shape_text(w.shape)}",
                fix="give weights of the shape of the array, or of the axes averaged over",
            )
        w = transpose(w, tuple(sorted(range(w.ndim), key=order.__getitem__)))
        w = reshape(w, tuple(d if i in axes else 1 for i, d in enumerate(x.shape)))
    total = reduction.sum(astype(broadcast_to(w, x.shape), common), axis=axes, keepdims=kept)
    result = Div.apply(reduction.sum(Mul.apply(astype(x, common), w), axis=axes, keepdims=kept), total)
    return (result, total) if returned else result


@implements(np.cov)
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Any:  # fmt: skip
    """The covariances of variables, which are the rows (the columns without `rowvar`) of `m` and `y`."""
    x = _variables(m, rowvar)
    if y is not None:
        x = concatenate([x, _variables(y, rowvar)], 0)
    x = astype(x, np.promote_types(x.dtype, float) if dtype is None else number_dtype(dtype))
    ddof = (0 if bias else 1) if ddof is None else ddof
    if fweights is None and aweights is None:
        w, center = None, mean(x, 1, keepdims=True)
        freedom = _freedom(dimension(x.shape[1]), ddof)
    else:
        given_weights = [lifted(f) for f in (fweights, aweights) if f is not None]
        w = given_weights[0] if len(given_weights) == 1 else Mul.apply(*given_weights)
        total = reduction.sum(w)
        center = expand_dims(Div.apply(reduction.sum(Mul.apply(x, w), axis=1), total), 1)
        if aweights is not None:
            ddof = Mul.apply(Div.apply(reduction.sum(Mul.apply(w, given_weights[-1])), total), ddof)
        freedom = Sub.apply(total, ddof)
    x = Sub.apply(x, center)
    products = matmul(x, conj(transpose(x if w is None else Mul.apply(x, w))))
    return squeeze(Div.apply(products, freedom))


def _variables(m: Any, rowvar: bool) -> Any:
    x = lifted(m)
    if x.ndim > 2:
        raise ShapeError(f"covariances of an array of shape {shape_text(x.shape)}", fix="give at most two dimensions")
    if x.ndim < 2:
        return reshape(x, (1, x.shape[0] if x.ndim else 1))
    return x if rowvar else transpose(x)


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """The correlations of variables: their covariances over the standard deviations, between -1 and 1."""
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return Div.apply(c, c)
    deviation = Sqrt.apply(real(Diagonal.apply(c, offset=0)))
    c = Div.apply(Div.apply(c, expand_dims(deviation, 1)), expand_dims(deviation, 0))
    if c.dtype.kind == "c":
        return clip(real(c), -1, 1) + clip(imag(c), -1, 1) * 1j
    return clip(c, -1, 1)
