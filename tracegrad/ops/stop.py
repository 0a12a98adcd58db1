"""The identity without a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.function import Operation
from tracegrad.ir.lowering import Elementwise
from tracegrad.ir.types import Type


class StopGradient(Operation):
    """The value itself; cotangents end here."""

    name = "stop_gradient"
    lower = Elementwise("positive")
    differentiable = False

    @staticmethod
    def forward(x: np.ndarray) -> np.ndarray:
        return x

    @staticmethod
    def infer(x: Type) -> Type:
        return x

    @staticmethod
    def put(x: Any, view: Any) -> Any:
        return view


def stop_gradient(x: Any) -> Any:
    """`x`, whose derivative is taken to be zero from here on."""
    return StopGradient.apply(x)
