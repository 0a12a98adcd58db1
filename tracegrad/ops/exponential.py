"""Exponentials and logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracegrad.ir.lowering import Elementwise
from tracegrad.numpy_protocols import implements
from tracegrad.ops.arithmetic import Add, Div, Mul, Reciprocal, Sub, chain, known_finite
from tracegrad.ops.base import ElementwiseOperation
from tracegrad.ops.comparison import Equal, IsInf, LogicalAnd
from tracegrad.ops.select import Where

_LN2, _LN10 = math.log(2), math.log(10)


class Exp(ElementwiseOperation):
    name = "exp"
    ufunc = np.exp
    lower = Elementwise("exp")
    saves = ("y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, ctx.output),)


class Exp2(ElementwiseOperation):
    name = "exp2"
    ufunc = np.exp2
    lower = Elementwise("exp2")
    saves = ("y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(Mul.apply(g, _LN2), ctx.output),)


class Expm1(ElementwiseOperation):
    """`exp(x) - 1`; the derivative is exp(x) itself, because `y + 1` has lost it for very negative x."""

    name = "expm1"
    ufunc = np.expm1
    lower = Elementwise("expm1")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Exp.apply(ctx.inputs[0])),)


class Log(ElementwiseOperation):
    name = "log"
    ufunc = np.log
    lower = Elementwise("log")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Reciprocal.apply(ctx.inputs[0])),)


class Log1p(ElementwiseOperation):
    name = "log1p"
    ufunc = np.log1p
    lower = Elementwise("log1p")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Reciprocal.apply(Add.apply(ctx.inputs[0], 1))),)


class Log2(ElementwiseOperation):
    name = "log2"
    ufunc = np.log2
    lower = Elementwise("log2")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Div.apply(1 / _LN2, ctx.inputs[0])),)


class Log10(ElementwiseOperation):
    name = "log10"
    ufunc = np.log10
    lower = Elementwise("log10")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(g, Div.apply(1 / _LN10, ctx.inputs[0])),)


class LogAddExp(ElementwiseOperation):
    """`log(exp(a) + exp(b))`. At two infinities of one sign: half to each at +inf, nothing at -inf."""

    name = "logaddexp"
    ufunc = np.logaddexp
    lower = Elementwise("logaddexp")
    saves = ("01y", "01y")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        return _logaddexp_gradient(ctx, g, 1)


class LogAddExp2(ElementwiseOperation):
    """`log2(2**a + 2**b)`, with the conventions of LogAddExp."""

    name = "logaddexp2"
    ufunc = np.logaddexp2
    saves = ("01y", "01y")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        return _logaddexp_gradient(ctx, g, _LN2)


def _logaddexp_gradient(ctx: Any, g: Any, scale: float) -> tuple[Any, Any]:
    from tracegrad.ops.special import Expit

    a, b = ctx.inputs
    needs = ctx.needs_input_grad
    difference, certain = Sub.apply(a, b), known_finite(ctx.output)  # a finite result comes of no two infinities
    if not certain:
        difference = Where.apply(LogicalAnd.apply(Equal.apply(a, b), IsInf.apply(a)), 0, difference)
    if scale != 1:
        difference = Mul.apply(difference, scale)
    g = g if certain else Where.apply(Equal.apply(ctx.output, -np.inf), 0, g)
    return (
        chain(g, Expit.apply(difference)) if needs[0] else None,
        chain(g, Expit.apply(Mul.apply(difference, -1))) if needs[1] else None,
    )


exp = implements(np.exp)(Exp.apply)
exp2 = implements(np.exp2)(Exp2.apply)
expm1 = implements(np.expm1)(Expm1.apply)
log = implements(np.log)(Log.apply)
log1p = implements(np.log1p)(Log1p.apply)
log2 = implements(np.log2)(Log2.apply)
log10 = implements(np.log10)(Log10.apply)
logaddexp = implements(np.logaddexp)(LogAddExp.apply)
logaddexp2 = implements(np.logaddexp2)(LogAddExp2.apply)
