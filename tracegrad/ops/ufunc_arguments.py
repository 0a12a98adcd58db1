"""The keyword arguments of NumPy's ufuncs on Tensors: out=, where=, dtype=, casting=."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.autograd.node import type_of
from tracegrad.errors import ArgumentError, DTypeError, LeavesTraceError, ShapeError, UnsupportedError
from tracegrad.ops.base import promotion_key, shape_text
from tracegrad.ops.to_python import carries_tangent
from tracegrad.tensor import Tensor

_IGNORED = {"order", "subok"}
_NEW_VALUE = "write x = x + y for x += y and leave out= away, or make the target a Tensor, as np.zeros_like(y) does"


def call_with_arguments(
    ufunc: np.ufunc, function: Callable[..., Any], inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`ufunc(*inputs, **kwargs)` where `function` is what the ufunc means for Tensors."""
    options = dict(kwargs)
    outs = options.pop("out", None)
    where = options.pop("where", True)
    dtype = options.pop("dtype", None)
    casting = options.pop("casting", "same_kind")
    unknown = sorted(set(options) - _IGNORED)
    if unknown:
        raise UnsupportedError(
            f"np.{ufunc.__name__} with the argument {unknown[0]!r}", fix="convert operands with .astype before the call"
        )
    if dtype is not None:
        inputs = _cast_inputs(ufunc, inputs, np.dtype(dtype), casting)
    results = function(*inputs)
    several = isinstance(results, tuple)
    each = results if several else (results,)
    targets = outs if isinstance(outs, tuple) else (outs,) * len(each)
    each = tuple(_stored(r, target, where, casting) for r, target in zip(each, targets, strict=True))
    return each if several else each[0]


def _cast_inputs(ufunc: np.ufunc, inputs: tuple[Any, ...], dtype: np.dtype, casting: str) -> tuple[Any, ...]:
    """The operands in the dtypes of the loop whose result has `dtype`. Raises DTypeError where NumPy would."""
    from tracegrad.ops.casting import astype

    keys = tuple(np.dtype(bool) if (k := promotion_key(type_of(x))) is bool else k for x in inputs)
    signature = (*(None,) * ufunc.nin, *(dtype,) * ufunc.nout)
    try:
        loop = ufunc.resolve_dtypes((*keys, *(None,) * ufunc.nout), signature=signature, casting=casting)
    except TypeError as error:
        raise DTypeError(
            f"np.{ufunc.__name__} with dtype={dtype} cannot take operands of dtype "
            + ", ".join(str(type_of(x).dtype) for x in inputs),
            fix="convert them with .astype, or pass casting='unsafe'",
        ) from error
    return tuple(astype(x, wanted) for x, wanted in zip(inputs, loop, strict=False))


def _stored(result: Any, out: Any, where: Any, casting: str) -> Any:
    from tracegrad.ops.select import Where, as_condition

    if where is not True:
        # Elements without a value are undefined in NumPy unless `out` provides them; here they are zeros.
        former = out if out is not None else 0
        result = Where.apply(as_condition(where), result, former)
    return result if out is None else write_out(out, result, casting)


def write_out(out: Any, result: Any, casting: str = "same_kind") -> Any:
    """Write a result into `out` (a Tensor or ndarray) as NumPy does, and return `out`.

    Raises ShapeError, DTypeError, and LeavesTraceError where an ndarray would lose the gradient.
    """
    if isinstance(out, tuple):
        (out,) = out
    if not isinstance(out, (Tensor, np.ndarray)):
        raise ArgumentError(f"out= must be a Tensor or ndarray, not {type(out).__name__}")
    if out.shape != result.shape:
        raise ShapeError(
            f"out= has shape {shape_text(out.shape)}, the result {shape_text(result.shape)}",
            fix="give an out of the result's shape",
        )
    if not np.can_cast(result.dtype, out.dtype, casting):
        raise DTypeError(
            f"a result of dtype {result.dtype} does not fit an out= of dtype {out.dtype} (casting {casting!r})",
            fix="give an out of the result's dtype, or casting='unsafe'",
        )
    if isinstance(out, Tensor):
        out[...] = result
        return out
    if isinstance(result, Tensor):
        if result.is_traced:
            raise LeavesTraceError(
                "a plain ndarray is to be written in place, but the result is a value of a traced function",
                fix=f"{_NEW_VALUE}; compiled programs reuse memory by themselves",
            )
        if result.requires_grad or carries_tangent(result):
            raise LeavesTraceError(
                "a plain ndarray is to be written in place, so the gradient of the result would be lost",
                fix=_NEW_VALUE,
            )
        result = result._array
    np.copyto(out, result, casting=casting)  # type: ignore[arg-type]
    return out
