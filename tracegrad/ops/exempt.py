"""A value put in the place of another without touching the derivative there."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.function import Operation
from tracegrad.ir.lowering import Elementwise
from tracegrad.ir.types import Type
from tracegrad.ops.base import broadcast_shapes


class Replaced(Operation):
    """`value` where the condition holds, `x` elsewhere; the derivative is that of x everywhere.

    For formulas whose value at a point is a limit (`x * log(y)` at x = 0) though their derivative is right there.
    """

    name = "replaced"
    lower = Elementwise("where")
    saves = ("", "", "")

    @staticmethod
    def forward(condition: Any, value: Any, x: Any) -> np.ndarray:
        return np.where(condition, value, x)

    @staticmethod
    def infer(condition: Type, value: Type, x: Type) -> Type:
        from tracegrad.ops.select import common_dtype

        return Type(common_dtype((value, x)), broadcast_shapes(condition.shape, value.shape, x.shape))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[None, None, Any]:
        return None, None, g


replaced = Replaced.apply
