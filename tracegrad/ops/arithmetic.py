"""Arithmetic: + - × ÷ // % and their kin, elementwise.

`chain` is how every elementwise derivative meets its cotangent: it conjugates (gradients are steepest-ascent
directions) and keeps a cotangent that is exactly zero at zero, whatever the partial derivative is.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy._core.multiarray import count_nonzero  # the C function behind np.count_nonzero, which costs five times that

from tracegrad.ir.lowering import Elementwise
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops.base import ElementwiseOperation, result_dtype
from tracegrad.ops.constant import Constant
from tracegrad.tensor import Tensor


class Add(ElementwiseOperation):
    name = "add"
    ufunc = np.add
    lower = Elementwise("add")
    saves = ("", "")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        return g, g


class Sub(ElementwiseOperation):
    name = "subtract"
    ufunc = np.subtract
    lower = Elementwise("subtract")
    saves = ("", "")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        needs = ctx.needs_input_grad
        return g, Neg.apply(g) if needs[1] else None


class Neg(ElementwiseOperation):
    name = "negative"
    ufunc = np.negative
    lower = Elementwise("negative")
    saves = ("",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (Neg.apply(g),)


class Positive(ElementwiseOperation):
    name = "positive"
    ufunc = np.positive
    lower = Elementwise("positive")
    saves = ("",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (g,)


class Conj(ElementwiseOperation):
    """The complex conjugate; real values stay."""

    name = "conjugate"
    ufunc = np.conjugate
    lower = Elementwise("positive")
    saves = ("",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (conj(g),)


def conj(x: Any) -> Any:
    """The complex conjugate, the value itself where it is real."""
    if isinstance(x, (int, float)):
        return x
    return Conj.apply(x) if isinstance(x, complex) or x.dtype.kind == "c" else x


class Mul(ElementwiseOperation):
    name = "multiply"
    ufunc = np.multiply
    lower = Elementwise("multiply")
    saves = ("1", "0")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        a, b = ctx.inputs
        needs = ctx.needs_input_grad
        return chain(g, b) if needs[0] else None, chain(g, a) if needs[1] else None


class ZeroMultiply(ElementwiseOperation):
    """`g * partial`, and 0 where `g` is exactly 0, even if the partial is infinite or NaN there."""

    name = "zero_multiply"
    ufunc = np.multiply
    lower = Elementwise("zero_multiply")
    saves = ("1", "0")

    @staticmethod
    def forward(g: Any, partial: Any) -> Any:
        if known_finite(partial):
            return np.multiply(g, partial)
        with np.errstate(invalid="ignore"):
            out = np.asarray(np.multiply(g, partial))
        np.copyto(out, 0, where=np.equal(g, 0))
        return out

    @staticmethod
    def backward(ctx: Any, c: Any) -> tuple[Any, Any]:
        g, partial = ctx.inputs
        needs = ctx.needs_input_grad
        return chain(c, partial) if needs[0] else None, chain(c, g) if needs[1] else None


def known_number(x: Any) -> Any:
    """The number a scalar operand is in every call, or None: Python numbers, and constants of a trace."""
    if isinstance(x, (bool, int, float, complex)):
        return x
    if isinstance(x, Tensor) and x._array is None and x._var.type.shape == ():
        node = x._trace.definitions.get(x._var)
        if node is not None and node.op is Constant:
            return node.attrs["value"].item()
    return None


def in_precision(x: Any, dtype: np.dtype) -> Any:
    """An operand in the dtype of the result, before a derivative is computed of it: a function of a uint8 would be
    computed in float16. Python numbers have no precision of their own."""
    from tracegrad.ops.casting import astype

    if isinstance(x, (bool, int, float, complex)) or x.dtype == dtype:
        return x
    return x if isinstance(x, Tensor) and x.is_traced and x._var.type.weak else astype(x, dtype)


def known_finite(x: Any) -> bool:
    """Whether no element is infinite or NaN: a finite sum, of squares if it is long, tells so quickly and silently."""
    if type(x) is np.ndarray:
        if x.dtype.kind != "f":
            return False
        if x.ndim != 1:
            return math.isfinite(np.vdot(x, x))
        return math.isfinite(sum(x.tolist()) if x.size <= 16 else x.dot(x))
    return isinstance(x, (float, np.floating)) and math.isfinite(x)


def known_nonzero(x: Any) -> bool:
    """Whether it is an array none of whose elements is zero."""
    return type(x) is np.ndarray and count_nonzero(x) == x.size


def chain(g: Any, partial: Any) -> Any:
    """The cotangent `g` times the conjugate of a partial derivative; 0 where `g` is exactly 0."""
    if type(g) is np.ndarray:  # most of what eager backward meets; what follows says the same of all
        if type(partial) is float:
            if math.isfinite(partial):
                return np.multiply(g, partial)
        elif type(partial) is np.ndarray and partial.dtype.kind == "f":
            few = g.size <= 256  # above, the partial derivative is checked in less time than g
            if (few and count_nonzero(g) == g.size) or known_finite(partial):
                return np.multiply(g, partial)
    number = known_number(partial)
    if number is not None and abs(number) < math.inf:
        return g if number == 1 else Mul.apply(g, conj(partial))
    return ZeroMultiply.apply(g, conj(partial))


class Div(ElementwiseOperation):
    name = "divide"
    ufunc = np.divide
    lower = Elementwise("divide")
    saves = ("1", "1y")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        b = ctx.inputs[1]
        needs = ctx.needs_input_grad
        if not needs[1] and known_number(b):
            return Div.apply(g, conj(b)), None
        b = in_precision(b, g.dtype)
        da = chain(g, Reciprocal.apply(b) if g.dtype.kind == "c" or _inexact(b) else Div.apply(1.0, b))
        return da if needs[0] else None, chain(Neg.apply(da), ctx.output) if needs[1] else None


def _inexact(x: Any) -> bool:
    return np.dtype(getattr(x, "dtype", type(x))).kind in "fc"


class Reciprocal(ElementwiseOperation):
    name = "reciprocal"
    ufunc = np.reciprocal
    lower = Elementwise("reciprocal")
    saves = ("y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(Neg.apply(g), Square.apply(ctx.output)),)


class Square(ElementwiseOperation):
    name = "square"
    ufunc = np.square
    lower = Elementwise("square")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Mul.apply(ctx.inputs[0], 2)),)


class FloorDivide(ElementwiseOperation):
    """Constant between its jumps, so its derivative is zero."""

    name = "floor_divide"
    ufunc = np.floor_divide
    lower = Elementwise("floor_divide")
    saves = ("", "")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[None, None]:
        return None, None


class Remainder(ElementwiseOperation):
    """`a - b * floor(a / b)`, with the sign of `b`."""

    name = "remainder"
    ufunc = np.remainder
    lower = Elementwise("remainder")
    saves = ("", "01")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        if not ctx.needs_input_grad[1]:
            return g, None
        a, b = ctx.inputs
        return g, chain(Neg.apply(g), FloorDivide.apply(a, b))


class Fmod(ElementwiseOperation):
    """`a - b * trunc(a / b)`, with the sign of `a`."""

    name = "fmod"
    ufunc = np.fmod
    lower = Elementwise("fmod")
    saves = ("", "01y")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        if not ctx.needs_input_grad[1]:
            return g, None
        from tracegrad.ops.rounding import Rint

        a, b = ctx.inputs
        quotient = Rint.apply(Div.apply(Sub.apply(a, ctx.output), b))
        return g, chain(Neg.apply(g), quotient)


class Sign(ElementwiseOperation):
    """-1, 0 or 1; for complex values `z / |z|`, 0 at 0."""

    name = "sign"
    ufunc = np.sign
    lower = Elementwise("sign")
    saves = ("0y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        """Of a complex value only the part of `g` across the direction counts, shrunk by the distance from 0."""
        if ctx.types[0].dtype.kind != "c":
            return (None,)
        from tracegrad.ops.casting import real
        from tracegrad.ops.select import where

        z, direction = ctx.inputs[0], ctx.output
        across = Sub.apply(g, Mul.apply(direction, real(Mul.apply(conj(direction), g))))
        length = Abs.apply(z)
        return (Div.apply(across, where(length == 0, np.inf, length)),)


class Abs(ElementwiseOperation):
    name = "absolute"
    ufunc = np.absolute
    lower = Elementwise("absolute")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (ZeroMultiply.apply(g, Sign.apply(ctx.inputs[0])),)


add = implements(np.add)(Add.apply)
subtract = implements(np.subtract)(Sub.apply)
negative = implements(np.negative)(Neg.apply)
positive = implements(np.positive)(Positive.apply)
multiply = implements(np.multiply)(Mul.apply)
divide = true_divide = implements(np.divide)(Div.apply)
reciprocal = implements(np.reciprocal)(Reciprocal.apply)
square = implements(np.square)(Square.apply)
floor_divide = implements(np.floor_divide)(FloorDivide.apply)
remainder = mod = implements(np.remainder)(Remainder.apply)
fmod = implements(np.fmod)(Fmod.apply)
sign = implements(np.sign)(Sign.apply)
absolute = implements(np.absolute)(Abs.apply)
conjugate = implements(np.conjugate)(Conj.apply)


@implements(np.fabs)
def fabs(x: Any) -> Any:
    """The absolute value in floating point. Complex operands raise DTypeError."""
    from tracegrad.ops.casting import astype

    dtype = result_dtype(np.fabs, (_type(x),))
    return Abs.apply(astype(x, dtype))


def _type(x: Any) -> Type:
    from tracegrad.autograd.node import type_of

    return type_of(x)


@implements(np.divmod)
def divmod(a: Any, b: Any) -> tuple[Any, Any]:
    """`a // b` and `a % b`."""
    return FloorDivide.apply(a, b), Remainder.apply(a, b)
