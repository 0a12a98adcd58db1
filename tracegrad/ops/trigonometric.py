"""Trigonometric and hyperbolic functions with their inverses, and angles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracegrad.ir.lowering import Elementwise
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import Add, Div, Mul, Neg, Reciprocal, Square, Sub, chain, known_nonzero
from tracegrad.ops.base import ElementwiseOperation
from tracegrad.ops.comparison import Equal
from tracegrad.ops.power import Sqrt
from tracegrad.ops.select import Where


class Sin(ElementwiseOperation):
    name = "sin"
    ufunc = np.sin
    lower = Elementwise("sin")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Cos.apply(ctx.inputs[0])),)


class Cos(ElementwiseOperation):
    name = "cos"
    ufunc = np.cos
    lower = Elementwise("cos")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(Neg.apply(g), Sin.apply(ctx.inputs[0])),)


class Tan(ElementwiseOperation):
    name = "tan"
    ufunc = np.tan
    lower = Elementwise("tan")
    saves = ("y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Add.apply(Square.apply(ctx.output), 1)),)


class Sinh(ElementwiseOperation):
    name = "sinh"
    ufunc = np.sinh
    lower = Elementwise("sinh")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Cosh.apply(ctx.inputs[0])),)


class Cosh(ElementwiseOperation):
    name = "cosh"
    ufunc = np.cosh
    lower = Elementwise("cosh")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Sinh.apply(ctx.inputs[0])),)


class Tanh(ElementwiseOperation):
    name = "tanh"
    ufunc = np.tanh
    lower = Elementwise("tanh")
    saves = ("y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Sub.apply(1, Square.apply(ctx.output))),)


def _one_minus_square(x: Any) -> Any:
    # As a product it keeps its digits where |x| is close to 1.
    return Mul.apply(Sub.apply(1, x), Add.apply(x, 1))


class ArcSin(ElementwiseOperation):
    name = "arcsin"
    ufunc = np.arcsin
    lower = Elementwise("arcsin")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Reciprocal.apply(Sqrt.apply(_one_minus_square(ctx.inputs[0])))),)


class ArcCos(ElementwiseOperation):
    name = "arccos"
    ufunc = np.arccos
    lower = Elementwise("arccos")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(Neg.apply(g), Reciprocal.apply(Sqrt.apply(_one_minus_square(ctx.inputs[0])))),)


class ArcTan(ElementwiseOperation):
    name = "arctan"
    ufunc = np.arctan
    lower = Elementwise("arctan")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Reciprocal.apply(Add.apply(Square.apply(ctx.inputs[0]), 1))),)


class ArcSinh(ElementwiseOperation):
    name = "arcsinh"
    ufunc = np.arcsinh
    lower = Elementwise("arcsinh")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Reciprocal.apply(Sqrt.apply(Add.apply(Square.apply(ctx.inputs[0]), 1)))),)


class ArcCosh(ElementwiseOperation):
    """The derivative is a product of two roots: on the branch cut one root of the product has the wrong sign."""

    name = "arccosh"
    ufunc = np.arccosh
    lower = Elementwise("arccosh")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        x = ctx.inputs[0]
        roots = Mul.apply(Sqrt.apply(Sub.apply(x, 1)), Sqrt.apply(Add.apply(x, 1)))
        return (chain(g, Reciprocal.apply(roots)),)


class ArcTanh(ElementwiseOperation):
    name = "arctanh"
    ufunc = np.arctanh
    lower = Elementwise("arctanh")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Reciprocal.apply(_one_minus_square(ctx.inputs[0]))),)


def _nonzero_length(length: Any) -> Any:
    """A length to divide by: where it is 0 so are the components, and 0 / 1 is the derivative's value there."""
    return length if known_nonzero(length) else Where.apply(Equal.apply(length, 0), 1, length)


class Hypot(ElementwiseOperation):
    """`sqrt(a² + b²)` without overflow; the derivative at the origin is 0."""

    name = "hypot"
    ufunc = np.hypot
    lower = Elementwise("hypot")
    saves = ("0y", "1y")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        a, b = ctx.inputs
        needs = ctx.needs_input_grad
        length = _nonzero_length(ctx.output)
        return (
            chain(g, Div.apply(a, length)) if needs[0] else None,
            chain(g, Div.apply(b, length)) if needs[1] else None,
        )


class ArcTan2(ElementwiseOperation):
    """The angle of the point (x, y), `arctan2(y, x)`; the derivative at the origin is 0."""

    name = "arctan2"
    ufunc = np.arctan2
    lower = Elementwise("arctan2")
    saves = ("01", "01")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        y, x = ctx.inputs
        needs = ctx.needs_input_grad
        length = _nonzero_length(Hypot.apply(y, x))  # dividing by it twice neither overflows nor underflows
        return (
            chain(g, Div.apply(Div.apply(x, length), length)) if needs[0] else None,
            chain(Neg.apply(g), Div.apply(Div.apply(y, length), length)) if needs[1] else None,
        )


class Deg2Rad(ElementwiseOperation):
    name = "deg2rad"
    ufunc = np.deg2rad
    lower = Elementwise("deg2rad")
    saves = ("",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (Mul.apply(g, math.pi / 180),)


class Rad2Deg(ElementwiseOperation):
    name = "rad2deg"
    ufunc = np.rad2deg
    lower = Elementwise("rad2deg")
    saves = ("",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (Mul.apply(g, 180 / math.pi),)


sin = implements(np.sin)(Sin.apply)
cos = implements(np.cos)(Cos.apply)
tan = implements(np.tan)(Tan.apply)
sinh = implements(np.sinh)(Sinh.apply)
cosh = implements(np.cosh)(Cosh.apply)
tanh = implements(np.tanh)(Tanh.apply)
arcsin = implements(np.arcsin)(ArcSin.apply)
arccos = implements(np.arccos)(ArcCos.apply)
arctan = implements(np.arctan)(ArcTan.apply)
arcsinh = implements(np.arcsinh)(ArcSinh.apply)
arccosh = implements(np.arccosh)(ArcCosh.apply)
arctanh = implements(np.arctanh)(ArcTanh.apply)
hypot = implements(np.hypot)(Hypot.apply)
arctan2 = implements(np.arctan2)(ArcTan2.apply)
deg2rad = radians = implements(np.deg2rad, np.radians)(Deg2Rad.apply)
rad2deg = degrees = implements(np.rad2deg, np.degrees)(Rad2Deg.apply)
