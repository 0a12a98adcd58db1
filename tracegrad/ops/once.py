"""The identity that may be differentiated no further: what @once_differentiable leaves in a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import AutogradError
from tracegrad.function import Operation
from tracegrad.ir.lowering import Elementwise
from tracegrad.ir.types import Type


def differentiated_twice(function: str) -> AutogradError:
    return AutogradError(
        f"trying to differentiate twice a function that was marked with @once_differentiable: {function}",
        fix="write that backward in tracegrad operations and remove the decorator",
    )


class Once(Operation):
    """A gradient that a once-differentiable backward returned; attribute `function` names it."""

    name = "once"
    lower = Elementwise("positive")
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, function: str) -> np.ndarray:
        return np.array(x)

    @staticmethod
    def infer(x: Type, *, function: str) -> Type:
        return Type(x.dtype, x.shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        raise differentiated_twice(ctx.attrs["function"])
