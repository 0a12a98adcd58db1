"""A copy in memory of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.function import Operation
from tracegrad.ir.lowering import Elementwise
from tracegrad.ir.types import Type


class Clone(Operation):
    """The value itself, copied."""

    name = "clone"
    lower = Elementwise("positive")
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray) -> np.ndarray:
        return np.array(x)

    @staticmethod
    def infer(x: Type) -> Type:
        return Type(x.dtype, x.shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (g,)
