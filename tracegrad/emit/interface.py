"""A program as seen from outside: what a caller needs to know of it once its code exists."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Location
from tracegrad.records import record


@record
class Array:
    """A C-contiguous array that is passed to a program, or which it passes on; see `schedule.loops.Buffer`."""

    name: str
    dtype: np.dtype
    shape: tuple[DimLike, ...]
    alias: str = ""


@record
class IndexCheck:
    """A place where a program checks an index: the axis it is for, and the user's line."""

    axis: int
    location: Location | None


@record
class Interface:
    """The arguments and results of a program, by name; `sizes` says where each symbol is found: (input, axis)."""

    name: str
    arrays: tuple[Array, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sizes: Mapping[str, tuple[int, int]]

    def buffer(self, name: str) -> Array:
        return next(a for a in self.arrays if a.name == name)

    @property
    def symbols(self) -> dict[str, int]:
        """Where each symbol stands in the table of sizes."""
        return {name: position for position, name in enumerate(self.sizes)}
