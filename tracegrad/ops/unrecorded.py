"""What memory holds after a modification that is not to be seen by gradients: under no_grad, or through detach()."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.function import Operation
from tracegrad.ir.index import Affine, Piece
from tracegrad.ir.lowering import IndexMap
from tracegrad.ir.types import Type


def _new_value(index: Sequence[Affine], inputs: tuple[Type, ...], out: Type) -> tuple[Piece, ...]:
    return (Piece(1, tuple(index)),)


class Unrecorded(Operation):
    """`value`, with the history of `former`: what eager code has where memory changes and its `grad_fn` stays."""

    name = "unrecorded"
    lower = IndexMap(_new_value)
    saves = ("", "")

    @staticmethod
    def forward(former: np.ndarray, value: np.ndarray) -> np.ndarray:
        return np.array(value)

    @staticmethod
    def infer(former: Type, value: Type) -> Type:
        return Type(value.dtype, value.shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, None]:
        return g, None
