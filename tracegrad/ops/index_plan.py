"""What a NumPy index means: a slice of every axis, then a reshape, then a gather along some axes.

The rules are NumPy's ("Indexing on ndarrays" in its manual): index arrays and boolean masks broadcast together; their
dimensions stand where the first of them stood, or first of all if a slice, an Ellipsis or None parts them. Integers
count among them as soon as there is one array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import TracegradIndexError
from tracegrad.ir.dims import Dim, DimLike, product
from tracegrad.ops.base import shape_text
from tracegrad.ops.operands import as_dim, assume_non_negative
from tracegrad.ops.slicing import slice_bounds
from tracegrad.records import record
from tracegrad.state import state
from tracegrad.tensor import Tensor

Shape = tuple[DimLike, ...]


@record
class IndexPlan:
    """`start`, `size`, `step` per axis of the operand; `middle`, the shape after dropping integers and adding None.

    `origin` says per axis of `middle` which axis of the operand it is, -1 where it is none or several. `axes` are the
    axes of `middle` that `arrays` (integers, or masks not yet turned into positions) index; their common dimensions
    stand at `position` of the result.
    """

    start: Shape
    size: Shape
    step: tuple[int, ...]
    middle: Shape
    origin: tuple[int, ...]
    axes: tuple[int, ...]
    arrays: tuple[Any, ...]
    position: int


def plan_index(shape: Shape, index: Any) -> IndexPlan:
    """The plan of `x[index]` for an x of `shape`. Raises TracegradIndexError, as NumPy an IndexError."""
    items = [_item(i) for i in (index if type(index) is tuple else (index,))]
    items, filled = _with_ellipsis(items, shape)
    advanced = [n for n, item in enumerate(items) if _is_array(item)]
    if advanced:
        advanced = [n for n, item in enumerate(items) if _is_array(item) or _is_position(item)]
    plan = _Builder(shape, filled)
    for number, item in enumerate(items):
        plan.add(item, first_advanced=bool(advanced) and number == advanced[0])
    apart = bool(advanced) and advanced[-1] - advanced[0] + 1 != len(advanced)
    return plan.finish(apart)


def _item(item: Any) -> Any:
    """None, Ellipsis, a slice, an int (or symbolic dimension), or an array of integers or bools."""
    if item is None or item is Ellipsis or isinstance(item, (slice, int, Dim)):
        return np.asarray(item) if isinstance(item, bool) else item
    if not isinstance(item, (Tensor, np.ndarray)):
        item = np.asarray(item)
        if item.size == 0 and item.dtype.kind == "f":
            item = item.astype(np.intp)
    if item.dtype.kind not in "iub":
        raise TracegradIndexError(
            f"an index of dtype {item.dtype} says no position",
            fix="index with integers, slices, Ellipsis, None, and arrays of integers or bools",
        )
    if isinstance(item, Tensor) and item.ndim == 0 and item._array is not None and state.trace is None:
        item = item._array
    if isinstance(item, (np.ndarray, np.generic)) and item.ndim == 0 and item.dtype.kind != "b":
        return int(item)
    return item


def _is_array(item: Any) -> bool:
    return isinstance(item, (Tensor, np.ndarray))


def _is_position(item: Any) -> bool:
    return isinstance(item, (int, Dim))


def _consumed(item: Any) -> int:
    """How many axes an item of an index reads."""
    if _is_array(item):
        return item.ndim if item.dtype.kind == "b" else 1
    return int(item is not None and item is not Ellipsis)


def _with_ellipsis(items: list[Any], shape: Shape) -> tuple[list[Any], int]:
    """The items with exactly one Ellipsis, at the end if there was none, and the number of axes it stands for."""
    if sum(item is Ellipsis for item in items) > 1:
        raise TracegradIndexError("an index can only have a single ellipsis ('...')")
    used = sum(map(_consumed, items))
    if used > len(shape):
        raise TracegradIndexError(
            f"too many indices: the array is {len(shape)}-dimensional, but {used} were indexed",
            fix=f"its shape is {shape_text(shape)}",
        )
    return items if any(item is Ellipsis for item in items) else [*items, Ellipsis], len(shape) - used


def position_in(position: DimLike, size: DimLike, axis: int) -> DimLike:
    """A position on an axis as a non-negative one. Raises TracegradIndexError where it is out of range."""
    if isinstance(position, int) and isinstance(size, int) and not -size <= position < size:
        raise TracegradIndexError(
            f"index {position} is out of bounds for axis {axis} with size {size}",
            fix=f"positions go from {-size} to {size - 1}" if size else "an empty axis has no elements to index",
        )
    place = position + size if isinstance(position, int) and position < 0 else position
    if not isinstance(position, int) and not assume_non_negative(position):
        place = position + size  # a negative position that is a symbolic size
    if not assume_non_negative(place) or not assume_non_negative(size - 1 - place):
        raise TracegradIndexError(
            f"index {position} is out of bounds for axis {axis} with size {size}", fix="test the size first"
        )
    return place


class _Builder:
    """Reads the items of an index one by one, each with the axes it consumes."""

    def __init__(self, shape: Shape, filled: int):
        self.shape, self.filled = shape, filled
        self.start: list[DimLike] = []
        self.size: list[DimLike] = []
        self.step: list[int] = []
        self.middle: list[DimLike] = []
        self.origin: list[int] = []
        self.axes: list[int] = []
        self.arrays: list[Any] = []
        self.position = 0

    def add(self, item: Any, first_advanced: bool) -> None:
        if first_advanced:
            self.position = len(self.middle)
        if item is Ellipsis:
            whole = self.shape[self._axis() : self._axis() + self.filled]
            self.origin.extend(range(self._axis(), self._axis() + self.filled))
            for dim in whole:
                self._take(0, dim, 1)
            self.middle.extend(whole)
        elif item is None:
            self.origin.append(-1)
            self.middle.append(1)
        elif _is_array(item):
            self._add_array(item)
        else:
            dim = self.shape[self._axis()]
            taken = (
                slice_bounds(item, dim)
                if isinstance(item, slice)
                else (position_in(as_dim(item), dim, self._axis()), 1, 1)
            )
            self._take(*taken)
            if isinstance(item, slice):
                self.origin.append(self._axis() - 1)
                self.middle.append(taken[1])

    def _axis(self) -> int:
        return len(self.start)

    def _take(self, start: DimLike, size: DimLike, step: int) -> None:
        self.start.append(start)
        self.size.append(size)
        self.step.append(step)

    def _add_array(self, item: Any) -> None:
        first = self._axis()
        covered = self.shape[first : first + _consumed(item)]
        if item.dtype.kind == "b" and item.shape != covered:
            raise TracegradIndexError(
                f"a boolean index of shape {shape_text(item.shape)} does not match the axes it indexes, of shape "
                f"{shape_text(covered)}",
                fix="make the mask as large as those axes",
            )
        for dim in covered:
            self._take(0, dim, 1)
        self.origin.append(first if len(covered) == 1 else -1)
        self.axes.append(len(self.middle))
        self.arrays.append(item)
        self.middle.append(product(covered))

    def finish(self, apart: bool) -> IndexPlan:
        return IndexPlan(
            tuple(self.start),
            tuple(self.size),
            tuple(self.step),
            tuple(self.middle),
            tuple(self.origin),
            tuple(self.axes),
            tuple(self.arrays),
            0 if apart else self.position,
        )
