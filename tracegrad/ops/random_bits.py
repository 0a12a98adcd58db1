"""Random bits as a function of a key and a counter.

Equal keys and counters give equal bits wherever they are computed, in any order: by NumPy, or inside the loops of a
compiled program. What draws from them, and which counters are used up, is the business of `tracegrad.random`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import DTypeError
from tracegrad.function import Operation
from tracegrad.ir.lowering import Elementwise
from tracegrad.ir.threefry import threefry
from tracegrad.ir.types import Type
from tracegrad.ops.base import broadcast_shapes


class RandomBits(Operation):
    """64 bits of the Threefry2x32 generator per pair of a key and a counter, all of them uint64."""

    name = "random_bits"
    lower = Elementwise("random_bits")
    differentiable = False

    @staticmethod
    def forward(key: Any, counter: Any) -> np.ndarray:
        return threefry(key, counter)

    @staticmethod
    def infer(key: Type, counter: Type) -> Type:
        for operand in (key, counter):
            if operand.dtype != np.uint64:
                raise DTypeError(
                    f"random bits come from a key and a counter of dtype uint64, not {operand.dtype}",
                    fix="make the key with tg.random.key(seed)",
                )
        return Type(np.dtype(np.uint64), broadcast_shapes(key.shape, counter.shape))


random_bits = RandomBits.apply
