"""Reductions over axes."""

from __future__ import annotations

import builtins
import functools
import math
from typing import Any

import numpy as np

from tracegrad.errors import ShapeError
from tracegrad.function import Operation
from tracegrad.ir.dims import product
from tracegrad.ir.lowering import Reduction
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import Div, chain
from tracegrad.ops.base import is_whole, normalize_axes, reduced_axes
from tracegrad.ops.casting import astype, fitting, number_dtype
from tracegrad.ops.comparison import Equal
from tracegrad.ops.operands import operand
from tracegrad.ops.select import Where, as_condition
from tracegrad.ops.shape import broadcast_to, expand_dims
from tracegrad.state import state

Axes = tuple[int, ...]

_SMALL = 4096  # up to so many elements a copy costs less than a view by np.broadcast_to


class ReductionOperation(Operation):
    """`axis` is a sorted tuple of non-negative ints, `keepdims` a bool."""

    @classmethod
    def reduced_type(cls, x: Type, axis: Axes, keepdims: bool, dtype: np.dtype) -> Type:
        shape = tuple(1 if i in axis else d for i, d in enumerate(x.shape) if keepdims or i not in axis)
        return Type(dtype, shape)


def restore_axes(g: Any, shape: tuple[Any, ...], axis: Axes, keepdims: bool) -> Any:
    """The cotangent of a reduction spread over the axes it had removed."""
    if type(g) is np.ndarray and state.trace is None:
        if not keepdims:
            g = g.reshape([1 if i in axis else d for i, d in enumerate(shape)])
        if math.prod(shape) > _SMALL:
            return np.broadcast_to(g, shape)
        spread = np.empty(shape, g.dtype)
        spread[...] = g
        return spread
    return broadcast_to(g if keepdims else expand_dims(g, axis), shape)


class _Accumulation(ReductionOperation):
    """A sum or product over `axis`, accumulated in `dtype`."""

    @classmethod
    def infer(cls, x: Type, *, axis: Axes, keepdims: bool, dtype: np.dtype) -> Type:
        return cls.reduced_type(x, axis, keepdims, dtype)


class Sum(_Accumulation):
    name = "sum"
    lower = Reduction("add")
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, axis: Axes, keepdims: bool, dtype: np.dtype) -> np.ndarray:
        return np.add.reduce(x, axis=axis, keepdims=keepdims, dtype=dtype)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (restore_axes(g, ctx.types[0].shape, ctx.attrs["axis"], ctx.attrs["keepdims"]),)


class Prod(_Accumulation):
    """The derivative multiplies all other elements, without a division, so zeros are as good as any number."""

    name = "prod"
    lower = Reduction("multiply")
    saves = ("0",)

    @staticmethod
    def forward(x: np.ndarray, *, axis: Axes, keepdims: bool, dtype: np.dtype) -> np.ndarray:
        return np.multiply.reduce(x, axis=axis, keepdims=keepdims, dtype=dtype)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        from tracegrad.ops.products import products_of_others

        x, axis = ctx.inputs[0], ctx.attrs["axis"]
        others = products_of_others(astype(x, g.dtype), axis)
        return (chain(restore_axes(g, x.shape, axis, ctx.attrs["keepdims"]), others),)


class _Extreme(ReductionOperation):
    """The cotangent is shared equally by the elements that reach the extreme."""

    saves = ("0y",)

    @classmethod
    def infer(cls, x: Type, *, axis: Axes, keepdims: bool) -> Type:
        if builtins.any(x.shape[i] == 0 for i in axis):
            raise ShapeError(f"the {cls.name} of no elements at all", fix="give initial=, or test the size first")
        return cls.reduced_type(x, axis, keepdims, x.dtype)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        x, axis, keepdims = ctx.inputs[0], ctx.attrs["axis"], ctx.attrs["keepdims"]
        reached = Equal.apply(x, restore_axes(ctx.output, x.shape, axis, keepdims))
        count = Sum.apply(reached, axis=axis, keepdims=keepdims, dtype=g.dtype)
        share = restore_axes(Div.apply(g, count), x.shape, axis, keepdims)
        return (Where.apply(reached, share, 0),)


class Max(_Extreme):
    name = "max"
    lower = Reduction("maximum")

    @staticmethod
    def forward(x: np.ndarray, *, axis: Axes, keepdims: bool) -> np.ndarray:
        return np.maximum.reduce(x, axis=axis, keepdims=keepdims)


class Min(_Extreme):
    name = "min"
    lower = Reduction("minimum")

    @staticmethod
    def forward(x: np.ndarray, *, axis: Axes, keepdims: bool) -> np.ndarray:
        return np.minimum.reduce(x, axis=axis, keepdims=keepdims)


class _Quantifier(ReductionOperation):
    differentiable = False

    @classmethod
    def infer(cls, x: Type, *, axis: Axes, keepdims: bool) -> Type:
        return cls.reduced_type(x, axis, keepdims, np.dtype(bool))


class Any_(_Quantifier):
    name = "any"
    lower = Reduction("logical_or")

    @staticmethod
    def forward(x: np.ndarray, *, axis: Axes, keepdims: bool) -> np.ndarray:
        return np.logical_or.reduce(x, axis=axis, keepdims=keepdims)


class All(_Quantifier):
    name = "all"
    lower = Reduction("logical_and")

    @staticmethod
    def forward(x: np.ndarray, *, axis: Axes, keepdims: bool) -> np.ndarray:
        return np.logical_and.reduce(x, axis=axis, keepdims=keepdims)


class _Position(ReductionOperation):
    """The first position of the extreme along the one axis; a NaN wins."""

    differentiable = False

    @classmethod
    def infer(cls, x: Type, *, axis: Axes, keepdims: bool) -> Type:
        if x.shape[axis[0]] == 0:
            raise ShapeError(f"{cls.name} of no elements at all", fix="test the size first")
        return cls.reduced_type(x, axis, keepdims, np.dtype(np.intp))


class ArgMax(_Position):
    name = "argmax"
    lower = Reduction("argmax")

    @staticmethod
    def forward(x: np.ndarray, *, axis: Axes, keepdims: bool) -> np.ndarray:
        return np.argmax(x, axis=axis[0], keepdims=keepdims)


class ArgMin(_Position):
    name = "argmin"
    lower = Reduction("argmin")

    @staticmethod
    def forward(x: np.ndarray, *, axis: Axes, keepdims: bool) -> np.ndarray:
        return np.argmin(x, axis=axis[0], keepdims=keepdims)


# ---- NumPy's functions -----------------------------------------------------------------------------------------------


class _NotGiven:
    def __repr__(self) -> str:
        return "<not given>"


NOT_GIVEN: Any = _NotGiven()


def given(value: Any) -> bool:
    """Whether an optional argument was passed; NumPy's own marker for "not passed" counts as absent."""
    return value is not NOT_GIVEN and value is not np._NoValue


def keep(keepdims: Any) -> bool:
    return bool(keepdims) if given(keepdims) else False


def finish(result: Any, out: Any) -> Any:
    """The result, written into `out` if there is one."""
    if out is None:
        return result
    from tracegrad.ops.ufunc_arguments import write_out

    return write_out(out, result)


@functools.lru_cache(maxsize=64)
def accumulation_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype NumPy sums and multiplies in: small integers and bools widen to the platform's integer."""
    return np.add.reduce(np.zeros(1, dtype)).dtype


def _masked(x: Any, where: Any, otherwise: Any) -> Any:
    """`x` where the mask is true, which must broadcast to its shape."""
    return Where.apply(broadcast_to(as_condition(where), x.shape), x, otherwise)


def _accumulate(op: type[_Accumulation], x: Any, axis: Any, dtype: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    x = operand(x)
    dtype = accumulation_dtype(x.dtype) if dtype is None else number_dtype(dtype)
    if not given(where) and not given(initial):
        return op.apply(x, axis=reduced_axes(axis, x.ndim), keepdims=keep(keepdims), dtype=dtype)
    from tracegrad.ops import arithmetic

    join, neutral = (arithmetic.add, 0) if op is Sum else (arithmetic.multiply, 1)
    if given(where) and where is not True:
        x = _masked(x, where, neutral)
    result = op.apply(x, axis=reduced_axes(axis, x.ndim), keepdims=keep(keepdims), dtype=dtype)
    if given(initial) and initial is not None:
        result = join(result, astype(operand(fitting(initial, dtype)), dtype))
    return result


@implements(np.sum)
def sum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = NOT_GIVEN,
    where: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    """NumPy's sum: over all axes, one, or several. Same shape rules; Tensor in, Tensor out."""
    return finish(_accumulate(Sum, a, axis, dtype, keepdims, initial, where), out)


@implements(np.prod)
def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = NOT_GIVEN,
    where: Any = NOT_GIVEN,
) -> Any:  # fmt: skip
    """NumPy's prod; its gradient is exact where elements are zero, to all orders."""
    return finish(_accumulate(Prod, a, axis, dtype, keepdims, initial, where), out)


def _extreme(op: type[_Extreme], join: str, x: Any, axis: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    from tracegrad.ops import select
    from tracegrad.ops.creation import full

    x = operand(x)
    axes = reduced_axes(axis, x.ndim)
    start = given(initial) and initial is not None
    if start:
        initial = astype(operand(fitting(initial, x.dtype)), x.dtype)
    if given(where) and where is not True:
        if not start:
            raise ShapeError(f"{op.name} with where= has no identity of its own", fix="give initial= as well")
        x = _masked(x, where, initial)
    if start and builtins.any(x.shape[i] == 0 for i in axes):
        reduced = op.reduced_type(Type(x.dtype, x.shape), axes, keep(keepdims), x.dtype)
        return full(reduced.shape, initial, reduced.dtype)
    result = op.apply(x, axis=axes, keepdims=keep(keepdims))
    return getattr(select, join)(result, initial) if start else result


@implements(np.max)
def max(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = NOT_GIVEN, where: Any = NOT_GIVEN
) -> Any:
    """NumPy's max; elements that tie share the gradient equally."""
    return finish(_extreme(Max, "maximum", a, axis, keepdims, initial, where), out)


@implements(np.min)
def min(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = NOT_GIVEN, where: Any = NOT_GIVEN
) -> Any:
    """NumPy's min; elements that tie share the gradient equally."""
    return finish(_extreme(Min, "minimum", a, axis, keepdims, initial, where), out)


amax, amin = implements(np.amax)(max), implements(np.amin)(min)


def _quantify(op: type[_Quantifier], neutral: bool, x: Any, axis: Any, keepdims: Any, where: Any) -> Any:
    x = operand(x)
    if given(where) and where is not True:
        x = _masked(as_condition(x), where, neutral)
    return op.apply(x, axis=reduced_axes(axis, x.ndim), keepdims=keep(keepdims))


@implements(np.any)
def any(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = NOT_GIVEN) -> Any:
    """Whether any element is true (not zero)."""
    return finish(_quantify(Any_, False, a, axis, keepdims, where), out)


@implements(np.all)
def all(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = NOT_GIVEN) -> Any:
    """Whether all elements are true (not zero)."""
    return finish(_quantify(All, True, a, axis, keepdims, where), out)


def _position(op: type[_Position], x: Any, axis: Any, keepdims: Any) -> Any:
    from tracegrad.ops.shape import reshape

    x = operand(x)
    if axis is not None and not is_whole(axis, x.ndim):
        return op.apply(x, axis=normalize_axes(int(axis), x.ndim), keepdims=keep(keepdims))
    result = op.apply(reshape(x, (product(x.shape),)), axis=(0,), keepdims=False)
    return reshape(result, (1,) * x.ndim) if keep(keepdims) else result


@implements(np.argmax)
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """The first position of the maximum along `axis`, or in the flattened array."""
    return finish(_position(ArgMax, a, axis, keepdims), out)


@implements(np.argmin)
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """The first position of the minimum along `axis`, or in the flattened array."""
    return finish(_position(ArgMin, a, axis, keepdims), out)
