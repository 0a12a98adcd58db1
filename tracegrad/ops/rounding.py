"""Rounding, and the parts of a number its sign makes; the derivative of a step is zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.ir.lowering import Elementwise
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import Div, Mul, Sign, Sub, ZeroMultiply
from tracegrad.ops.base import ElementwiseOperation, result_dtype
from tracegrad.ops.comparison import Equal, IsInf, IsNan
from tracegrad.ops.select import Where


class Step(ElementwiseOperation):
    """Constant between its jumps."""

    saves = ("",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[None]:
        return (None,)


class Floor(Step):
    name = "floor"
    ufunc = np.floor
    lower = Elementwise("floor")


class Ceil(Step):
    name = "ceil"
    ufunc = np.ceil
    lower = Elementwise("ceil")


class Trunc(Step):
    name = "trunc"
    ufunc = np.trunc
    lower = Elementwise("trunc")


class Rint(Step):
    """To the nearest integer, ties to even."""

    name = "rint"
    ufunc = np.rint
    lower = Elementwise("rint")


class CopySign(ElementwiseOperation):
    """The size of `a` with the sign of `b`; the derivative at a = 0 is 0."""

    name = "copysign"
    ufunc = np.copysign
    lower = Elementwise("copysign")
    saves = ("01", "")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, None]:
        if not ctx.needs_input_grad[0]:
            return None, None
        a, b = ctx.inputs
        return ZeroMultiply.apply(g, Mul.apply(Sign.apply(a), CopySign.apply(1.0, b))), None


class Heaviside(ElementwiseOperation):
    """0 below 0, 1 above, and the second operand at 0."""

    name = "heaviside"
    ufunc = np.heaviside
    lower = Elementwise("heaviside")
    saves = ("", "0")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[None, Any]:
        if not ctx.needs_input_grad[1]:
            return None, None
        return None, Where.apply(Equal.apply(ctx.inputs[0], 0), g, 0)


floor = implements(np.floor)(Floor.apply)
ceil = implements(np.ceil)(Ceil.apply)
trunc = implements(np.trunc)(Trunc.apply)
rint = implements(np.rint)(Rint.apply)
copysign = implements(np.copysign)(CopySign.apply)
heaviside = implements(np.heaviside)(Heaviside.apply)


@implements(np.round)
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """NumPy's round, ties to even; negative `decimals` round to tens, hundreds, …"""
    from tracegrad.ops.reduction import finish

    if a.dtype.kind in "iub" and decimals >= 0:
        return finish(a if a.dtype.kind != "b" else a.astype(np.float16), out)
    if decimals == 0:
        return finish(Rint.apply(a), out)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return finish(Div.apply(Rint.apply(Mul.apply(a, scale)), scale), out)
    result = Mul.apply(Rint.apply(Div.apply(a, scale)), scale)
    return finish(result if a.dtype.kind not in "iu" else result.astype(a.dtype), out)


around = implements(np.around)(round)


@implements(np.fix)
def fix(x: Any, out: Any = None) -> Any:
    """Rounded towards zero, in floating point."""
    from tracegrad.ops.reduction import finish

    return finish(Trunc.apply(x), out)


@implements(np.modf)
def modf(x: Any) -> tuple[Any, Any]:
    """The fractional and the whole part, both with the sign of `x`."""
    from tracegrad.ops.casting import astype

    x = astype(x, result_dtype(np.modf, (x.type,)))
    whole = Trunc.apply(x)
    fraction = Where.apply(IsInf.apply(x), 0, Sub.apply(x, whole))
    return CopySign.apply(fraction, x), whole


@implements(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """NaN and infinities replaced by numbers, in `x` itself without `copy`; nothing flows back through them."""
    from tracegrad.ops.reduction import finish

    if x.dtype.kind not in "fc":
        return x
    return finish(_numbers_for(x, nan, posinf, neginf), None if copy else x)


def _numbers_for(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    from tracegrad.ops.casting import imag, real

    if x.dtype.kind == "c":
        first, second = (_numbers_for(part, nan, posinf, neginf) for part in (real(x), imag(x)))
        return first + second * 1j
    limits = np.finfo(x.dtype)
    large = float(limits.max) if posinf is None else posinf
    small = float(limits.min) if neginf is None else neginf
    x = Where.apply(IsNan.apply(x), nan, x)
    return Where.apply(Equal.apply(x, np.inf), large, Where.apply(Equal.apply(x, -np.inf), small, x))


def sinc_series(t2: Any) -> Any:
    """sin(t)/t by its Taylor series in t², to double precision for t² <= 1/4."""
    result: Any = 1.0
    for k in (7, 6, 5, 4, 3, 2, 1):
        result = Sub.apply(1, Mul.apply(Mul.apply(t2, result), 1 / (2 * k * (2 * k + 1))))
    return result


@implements(np.sinc)
def sinc(x: Any) -> Any:
    """sin(πx)/(πx), 1 at 0; near 0 by its series, so that derivatives of all orders are right there."""
    from tracegrad.ops.arithmetic import Abs, Square
    from tracegrad.ops.comparison import LessEqual
    from tracegrad.ops.trigonometric import Sin

    t = Mul.apply(x, np.pi)
    near = LessEqual.apply(Abs.apply(t), 0.5)
    away = Where.apply(near, 1, t)
    return Where.apply(near, sinc_series(Square.apply(t)), Div.apply(Sin.apply(away), away))
