"""Methods of NumPy's ufuncs on Tensors: np.add.reduce, np.multiply.outer, np.add.accumulate, np.add.at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.autograd.node import type_of
from tracegrad.errors import LeavesTraceError, ShapeError
from tracegrad.numpy_protocols import strong, ufunc_methods, ufuncs
from tracegrad.ops import reduction
from tracegrad.ops.base import normalize_axis, reduced_axes, result_dtype
from tracegrad.ops.casting import astype
from tracegrad.ops.operands import operand
from tracegrad.ops.shape import reshape
from tracegrad.tensor import Tensor

_REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: reduction.sum, np.multiply: reduction.prod, np.maximum: reduction.max, np.minimum: reduction.min,
    np.logical_or: reduction.any, np.logical_and: reduction.all,
}  # fmt: skip


def _reduce(ufunc: np.ufunc) -> Callable[..., Any]:
    function = _REDUCTIONS[ufunc]

    def reduce(
        array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, **kwargs: Any
    ) -> Any:
        """As the reduction of the same meaning, but over the first axis unless told otherwise."""
        if ufunc in (np.add, np.multiply):
            kwargs["dtype"] = dtype
        elif dtype is not None:
            array = operand(array).astype(dtype)
        if "initial" in kwargs and kwargs["initial"] is None:
            _check_not_empty(ufunc, array, axis)
        if ufunc in (np.logical_and, np.logical_or):
            return reduction.finish(_quantified(ufunc, array, axis, keepdims, **kwargs), out)
        return function(array, axis, keepdims=keepdims, out=out, **kwargs)

    return reduce


def _quantified(
    ufunc: np.ufunc, array: Any, axis: Any, keepdims: Any, initial: Any = None, where: Any = reduction.NOT_GIVEN
) -> Any:
    result = _REDUCTIONS[ufunc](array, axis, keepdims=keepdims, where=where)
    given = reduction.given(initial) and initial is not None
    return ufuncs[ufunc](result, initial) if given else result


def _check_not_empty(ufunc: np.ufunc, array: Any, axis: Any) -> None:
    """Raise ShapeError for results of no elements at all: `initial=None` says that there is nothing to begin with."""
    x = operand(array)
    kept = [d for i, d in enumerate(x.shape) if i not in reduced_axes(axis, x.ndim)]
    if 0 in x.shape and 0 not in kept:
        raise ShapeError(f"np.{ufunc.__name__}.reduce of no elements with initial=None", fix="leave initial= away")


def _outer(function: Callable[..., Any]) -> Callable[..., Any]:
    def outer(a: Any, b: Any, **kwargs: Any) -> Any:
        """The operation on all pairs: the result's shape is that of `a` and then that of `b`."""
        a, b = (strong(operand(x)) for x in (a, b))  # outer makes arrays of Python numbers
        return function(reshape(a, (*a.shape, *(1,) * b.ndim)), b, **kwargs)

    return outer


def _accumulate(name: str) -> Callable[..., Any]:
    def accumulate(array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Running results along an axis, the first unless told otherwise."""
        from tracegrad.ops import cumulative

        return getattr(cumulative, name)(array, axis=normalize_axis(axis, array.ndim), dtype=dtype, out=out)

    return accumulate


def _at(ufunc: np.ufunc) -> Callable[..., Any]:
    def at(a: Any, indices: Any, b: Any) -> None:
        """Add (or subtract) at indices, all contributions of repeated ones."""
        if not isinstance(a, Tensor):
            raise LeavesTraceError(
                "ufunc.at would write Tensors into a plain ndarray, so their gradient would be lost",
                fix="make the target a Tensor, for example with np.zeros_like(x)",
            )
        index = tuple(indices) if isinstance(indices, list) and any(isinstance(i, slice) for i in indices) else indices
        a[...] = _combined(ufunc, a, index, operand(b))

    return at


def _combined(ufunc: np.ufunc, a: Tensor, index: Any, b: Any) -> Any:
    """What `ufunc.at` leaves in `a`: NumPy computes in the dtype of `a + b` and casts to that of `a`, unsafely."""
    from tracegrad.ops.index_writes import combine_at, index_add

    common, own = result_dtype(ufunc, (a.type, type_of(b))), a.dtype
    if common != own and own.kind in "biu" and not (common.kind in "iu" and own.kind in "iu"):
        return combine_at(a, index, b, subtract=ufunc is np.subtract)
    b = astype(b, a.dtype)
    return index_add(a, index, b if ufunc is np.add else -b)


def register() -> None:
    """Fill the table of ufunc methods from the ufuncs that have a meaning for Tensors."""
    for ufunc in _REDUCTIONS:
        ufunc_methods[ufunc, "reduce"] = _reduce(ufunc)
    for ufunc, function in list(ufuncs.items()):
        if ufunc.nin == 2 and ufunc.nout == 1 and ufunc.signature is None:
            ufunc_methods[ufunc, "outer"] = _outer(function)
    ufunc_methods[np.add, "accumulate"] = _accumulate("cumsum")
    ufunc_methods[np.multiply, "accumulate"] = _accumulate("cumprod")
    ufunc_methods[np.add, "at"] = _at(np.add)
    ufunc_methods[np.subtract, "at"] = _at(np.subtract)


register()
