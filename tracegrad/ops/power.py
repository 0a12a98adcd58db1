"""Powers and roots."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import DTypeError
from tracegrad.ir.lowering import Elementwise
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import (
    Div,
    Mul,
    Positive,
    Reciprocal,
    Square,
    Sub,
    ZeroMultiply,
    chain,
    in_precision,
    known_number,
)
from tracegrad.ops.base import ElementwiseOperation
from tracegrad.ops.casting import astype
from tracegrad.ops.comparison import Equal, LogicalAnd
from tracegrad.ops.exponential import Log
from tracegrad.ops.select import Where
from tracegrad.tensor import Tensor


class Power(ElementwiseOperation):
    """`x ** y`. The derivative of `x ** 0` in x is 0 everywhere; the one in y is 0 at x = 0 for y >= 0."""

    name = "power"
    ufunc = np.power
    lower = Elementwise("power")
    saves = ("01", "01y")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        x, y = ctx.inputs
        needs = ctx.needs_input_grad
        return (
            _base_gradient(g, x, y) if needs[0] else None,
            _exponent_gradient(g, x, y, ctx.output) if needs[1] else None,
        )


def _base_gradient(g: Any, x: Any, y: Any) -> Any:
    number = known_number(y)
    if number is None:
        y = in_precision(y, g.dtype)
        return chain(g, ZeroMultiply.apply(y, Power.apply(x, Sub.apply(y, 1))))
    if number == 0:
        return None
    if number == 1:
        return g
    return chain(g, Mul.apply(power(x, number - 1), number))


def _exponent_gradient(g: Any, x: Any, y: Any, output: Any) -> Any:
    # 0 ** 0 is a corner of the domain; its derivative in y counts as 0.
    both_zero = LogicalAnd.apply(Equal.apply(x, 0), Equal.apply(y, 0))
    base = in_precision(x, g.dtype)
    return chain(g, ZeroMultiply.apply(output, Log.apply(Where.apply(both_zero, 1, base))))


@implements(np.power)
def power(x: Any, y: Any) -> Any:
    """NumPy's power. Small fixed exponents become cheaper operations with the same values and exact derivatives."""
    if type(y) in (int, float) and isinstance(x, Tensor):
        kind = x.dtype.kind
        if kind in "fc" or (kind in "iu" and type(y) is int):
            if y == 2:
                return Square.apply(x)
            if y == 1:
                return Positive.apply(x)
            if y == -1 and kind in "fc":
                return Reciprocal.apply(x)
        if kind in "biu" and type(y) is int and y < 0:
            raise DTypeError(
                "integers to negative integer powers are not allowed", fix="make the base or the exponent a float"
            )
    return Power.apply(x, y)


def operator_power(x: Any, y: Any) -> Any:
    """`x ** y`: as `power`, and as NumPy's operator with the square root for 0.5, and np.square of bools for 2."""
    if isinstance(x, Tensor):
        if type(y) is float and y == 0.5 and x.dtype.kind in "fc":
            return Sqrt.apply(x)
        if type(y) is int and y == 2 and x.dtype.kind == "b":
            return Square.apply(x)
    return power(x, y)


@implements(np.float_power)
def float_power(x: Any, y: Any) -> Any:
    """`x ** y` computed in float64 (or complex128) at least."""
    from tracegrad.autograd.node import type_of
    from tracegrad.ops.base import result_dtype

    dtype = result_dtype(np.float_power, (type_of(x), type_of(y)))
    return Power.apply(astype(x, dtype), astype(y, dtype))


class Sqrt(ElementwiseOperation):
    """The derivative at 0 is infinite, and 0 where the cotangent is 0."""

    name = "sqrt"
    ufunc = np.sqrt
    lower = Elementwise("sqrt")
    saves = ("y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Div.apply(0.5, ctx.output)),)


class Cbrt(ElementwiseOperation):
    name = "cbrt"
    ufunc = np.cbrt
    lower = Elementwise("cbrt")
    saves = ("y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Reciprocal.apply(Mul.apply(Square.apply(ctx.output), 3))),)


sqrt = implements(np.sqrt)(Sqrt.apply)
cbrt = implements(np.cbrt)(Cbrt.apply)
