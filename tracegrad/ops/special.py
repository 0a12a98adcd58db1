"""Special functions that compiled programs have kernels for: erf, erfc, expit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracegrad.function import Operation
from tracegrad.ir.lowering import Elementwise
from tracegrad.ir.types import Type
from tracegrad.ops.arithmetic import Mul, Neg, Square, Sub, chain
from tracegrad.ops.base import result_dtype
from tracegrad.ops.exponential import Exp


class SpecialOperation(Operation):
    """A ufunc of scipy.special under the operation's name, which is imported when first needed."""

    @classmethod
    def scipy_ufunc(cls) -> np.ufunc:
        import scipy.special

        return getattr(scipy.special, cls.name)

    @classmethod
    def forward(cls, x: Any) -> Any:
        return cls.scipy_ufunc()(x)

    @classmethod
    def infer(cls, x: Type) -> Type:
        return Type(result_dtype(cls.scipy_ufunc(), (x,)), x.shape, x.weak)


class Erf(SpecialOperation):
    """The error function, 2/sqrt(π) times the integral of exp(-t²) from 0 to x (DLMF 7.2.1)."""

    name = "erf"
    lower = Elementwise("erf")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(Mul.apply(g, 2 / math.sqrt(math.pi)), _gauss(ctx.inputs[0])),)


class Erfc(SpecialOperation):
    """`1 - erf(x)`, accurate where that is small (DLMF 7.2.2)."""

    name = "erfc"
    lower = Elementwise("erfc")
    saves = ("0",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (chain(Mul.apply(g, -2 / math.sqrt(math.pi)), _gauss(ctx.inputs[0])),)


def _gauss(x: Any) -> Any:
    return Exp.apply(Neg.apply(Square.apply(x)))


class Expit(SpecialOperation):
    """The logistic sigmoid, 1 / (1 + exp(-x))."""

    name = "expit"
    lower = Elementwise("expit")
    saves = ("y",)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        y = ctx.output
        return (chain(g, Mul.apply(y, Sub.apply(1, y))),)


erf = Erf.apply
erfc = Erfc.apply
expit = Expit.apply
