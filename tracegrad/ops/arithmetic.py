"""Arithmetic: + - × ÷ and their kin, elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.ir.lowering import Elementwise
from tracegrad.ops.base import ElementwiseOperation


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


class Mul(ElementwiseOperation):
    name = "multiply"
    ufunc = np.multiply
    lower = Elementwise("multiply")
    saves = ("1", "0")

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        a, b = ctx.inputs
        needs = ctx.needs_input_grad
        return Mul.apply(g, b) if needs[0] else None, Mul.apply(g, a) if needs[1] else None
