"""Choice between values: where, maximum and minimum, clip."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy._core.multiarray import count_nonzero
from numpy._core.umath import clip as clip_ufunc  # np.clip costs five times that

from tracegrad.function import Operation
from tracegrad.ir.lowering import Elementwise
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import Mul
from tracegrad.ops.base import ElementwiseOperation, broadcast_shapes, promotion_key
from tracegrad.ops.casting import fitting
from tracegrad.ops.comparison import Equal, Greater, IsNan, Less, LogicalOr, NotEqual


def common_dtype(types: tuple[Type, ...]) -> np.dtype:
    """NumPy's promotion without a ufunc: weak values count as the Python numbers they are."""
    keys = [promotion_key(t) for t in types]
    return np.result_type(*(k if isinstance(k, np.dtype) else k(0) for k in keys))


_SMALL = 4096  # up to so many elements what a call costs before it begins matters


class Where(Operation):
    """`x` where the condition (a bool array) holds, `y` elsewhere; nothing flows to the side not taken."""

    name = "where"
    lower = Elementwise("where")
    saves = ("", "0", "0")

    @staticmethod
    def forward(condition: Any, x: Any, y: Any) -> np.ndarray:
        if type(condition) is np.ndarray:
            if type(x) is int and x == 0 and _alike(condition, y):
                return _zeroed(y, condition)
            if type(y) is int and y == 0 and _alike(condition, x):
                return _zeroed(x, ~condition)
        return np.where(condition, x, y)

    @staticmethod
    def infer(condition: Type, x: Type, y: Type) -> Type:
        return Type(common_dtype((x, y)), broadcast_shapes(condition.shape, x.shape, y.shape))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[None, Any, Any]:
        condition = ctx.inputs[0]
        _, x, y = ctx.needs_input_grad
        return None, Where.apply(condition, g, 0) if x else None, Where.apply(condition, 0, g) if y else None


def _alike(condition: np.ndarray, value: Any) -> bool:
    """Whether the value is a small array of floating point numbers of the condition's shape."""
    if type(value) is not np.ndarray or condition.dtype.kind != "b" or value.size > _SMALL:
        return False
    return value.shape == condition.shape and value.dtype.kind in "fc"


def _zeroed(value: np.ndarray, condition: np.ndarray) -> np.ndarray:
    """The value with zeros where the condition holds; np.where takes three times as long to begin."""
    out = value.copy()
    out[condition] = 0
    return out


def as_condition(x: Any) -> Any:
    """A condition as bools: numbers count as true where they are not zero."""
    if not hasattr(x, "dtype"):
        x = np.asarray(x)
    return x if x.dtype.kind == "b" else NotEqual.apply(x, 0)


@implements(np.where)
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """NumPy's where; with the condition alone it is np.nonzero."""
    if x is None and y is None:
        from tracegrad.ops.taking import nonzero

        return nonzero(condition)
    return Where.apply(as_condition(condition), x, y)


class _Extremum(ElementwiseOperation):
    """Half of the cotangent goes to each operand where they are equal."""

    saves = ("01", "01")
    loses: Any

    @classmethod
    def backward(cls, ctx: Any, g: Any) -> tuple[Any, Any]:
        a, b = ctx.inputs
        needs = ctx.needs_input_grad
        tie = Equal.apply(a, b)
        none = type(tie) is np.ndarray and not count_nonzero(tie)
        shared = g if none else Where.apply(tie, Mul.apply(g, 0.5), g)
        return (
            Where.apply(cls.loses(a, b), 0, shared) if needs[0] else None,
            Where.apply(cls.loses(b, a), 0, shared) if needs[1] else None,
        )


def _is_less(a: Any, b: Any) -> Any:
    return Less.apply(a, b)


def _is_greater(a: Any, b: Any) -> Any:
    return Greater.apply(a, b)


def _is_less_or_nan(a: Any, b: Any) -> Any:
    return LogicalOr.apply(_is_less(a, b), IsNan.apply(a))


def _is_greater_or_nan(a: Any, b: Any) -> Any:
    return LogicalOr.apply(_is_greater(a, b), IsNan.apply(a))


class Maximum(_Extremum):
    name = "maximum"
    ufunc = np.maximum
    lower = Elementwise("maximum")
    loses = staticmethod(_is_less)


class Minimum(_Extremum):
    name = "minimum"
    ufunc = np.minimum
    lower = Elementwise("minimum")
    loses = staticmethod(_is_greater)


class Fmax(_Extremum):
    """The larger value; a NaN loses against a number."""

    name = "fmax"
    ufunc = np.fmax
    lower = Elementwise("fmax")
    loses = staticmethod(_is_less_or_nan)


class Fmin(_Extremum):
    """The smaller value; a NaN loses against a number."""

    name = "fmin"
    ufunc = np.fmin
    lower = Elementwise("fmin")
    loses = staticmethod(_is_greater_or_nan)


class Clip(Operation):
    """`minimum(maximum(x, low), high)`; at a bound the cotangent goes to `x`."""

    name = "clip"
    lower = Elementwise("clip")
    saves = ("012", "012", "012")

    @staticmethod
    def forward(x: Any, low: Any, high: Any) -> np.ndarray:
        return clip_ufunc(x, low, high) if type(x) is np.ndarray and x.dtype.kind == "f" else np.clip(x, low, high)

    @staticmethod
    def infer(x: Type, low: Type, high: Type) -> Type:
        return Type(common_dtype((x, low, high)), broadcast_shapes(x.shape, low.shape, high.shape))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any, Any]:
        x, low, high = ctx.inputs
        needs = ctx.needs_input_grad
        below, above = _is_less(x, low), _is_greater(x, high)
        if type(low) is not float or type(high) is not float or low > high:
            above = LogicalOr.apply(above, _is_greater(low, high))
        return (
            Where.apply(LogicalOr.apply(below, above), 0, g) if needs[0] else None,
            Where.apply(above, 0, Where.apply(below, g, 0)) if needs[1] else None,
            Where.apply(above, g, 0) if needs[2] else None,
        )


maximum = implements(np.maximum)(Maximum.apply)
minimum = implements(np.minimum)(Minimum.apply)
fmax = implements(np.fmax)(Fmax.apply)
fmin = implements(np.fmin)(Fmin.apply)


@implements(np.clip)
def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """NumPy's clip; a bound that is None is absent. Bounds may be arrays, and get gradients where they are active."""
    from tracegrad.autograd.node import type_of

    low = a_min if a_min is not None else min
    high = a_max if a_max is not None else max
    dtype = type_of(a).dtype
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low = None if type(low) is int and low <= limits.min else low
        high = None if type(high) is int and high >= limits.max else high
    given = tuple(fitting(bound, dtype) for bound in (low, high) if bound is not None)
    if not given:
        return +a
    if len(given) == 1 and common_dtype(tuple(map(type_of, (a, *given)))).kind in "iub":
        return Minimum.apply(a, high) if low is None else Maximum.apply(a, low)
    return Clip.apply(a, -np.inf if low is None else low, np.inf if high is None else high)
