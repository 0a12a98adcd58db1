"""Constants of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.function import Operation
from tracegrad.ir import lowering
from tracegrad.ir.types import Type


class Constant(Operation):
    """A fixed array. `weak` marks a Python number, which leaves the dtype of its partners alone."""

    name = "constant"
    lower = lowering.Constant()

    @staticmethod
    def forward(*, value: np.ndarray, weak: bool = False) -> Any:
        return value

    @staticmethod
    def infer(*, value: np.ndarray, weak: bool = False) -> Type:
        return Type(value.dtype, value.shape, weak)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[()]:
        return ()
