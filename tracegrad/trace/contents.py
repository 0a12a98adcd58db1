"""Plain arrays that a recording computes with, and what plain NumPy code of the recorded function does to them.

Such code is not recorded. What it computes is the same in each call, so an array made in the function has in each place
the numbers it had there while recording; one from outside would have others in each call, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import UnsupportedError
from tracegrad.trace.environment import Environment

WHOLE = 1 << 16  # elements up to which an array is compared whole each time it is used
SAMPLED = 1 << 10
_FIX = "copy the array before it is overwritten, or write into one that was made from a traced value (np.zeros_like(x))"


class Contents:
    """The numbers of an array when it was first used. `sampled`: later uses compared some of its elements only."""

    __slots__ = ("array", "sampled")

    def __init__(self, array: np.ndarray):
        self.array = array.copy()
        self.sampled = False

    def seem_those_of(self, array: np.ndarray) -> bool:
        """Whether the array has these numbers now, as far as a glance tells."""
        if array.size <= WHOLE:
            return self.are_those_of(array)
        self.sampled = True
        step = array.size // SAMPLED
        return bool(array.flat[::step].tobytes() == self.array.flat[::step].tobytes())

    def are_those_of(self, array: np.ndarray) -> bool:
        """Whether the array has these numbers now, to the bit."""
        return array.tobytes() == self.array.tobytes()


def overwritten_in_part() -> UnsupportedError:
    """What is raised where nobody knows which use of a large array saw which numbers."""
    return UnsupportedError("a large plain array is overwritten in a traced function between its uses", fix=_FIX)


def refuse_writes_outside(function: Callable[..., Any], static: Sequence[Any], written: Sequence[np.ndarray]) -> None:
    """Raise UnsupportedError if an overwritten array, or what it is a view of, is reached from outside the function."""
    if not written:
        return
    environment = Environment(function, static)
    for array in written:
        memory: Any = array
        while memory is not None:
            if id(memory) in environment.arrays:
                raise UnsupportedError(
                    f"the traced function computes with an array from outside, of shape {list(memory.shape)}, and "
                    "overwrites it in plain NumPy code: that code runs while recording only, so later calls would "
                    "compute with other numbers than Python does",
                    fix="make the array inside the function, or make it a Tensor (tg.tensor), whose modification is "
                    "recorded",
                )
            memory = memory.base
