"""Writing to computed positions: an array after `x[i, 2:9] = value`, or `+=`, as a value of its own.

The schedule does it in place where nobody reads the old array any more, so a write costs what it writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import TracegradIndexError
from tracegrad.function import Operation
from tracegrad.ir import lowering
from tracegrad.ir.dims import DimLike, product
from tracegrad.ir.types import Type
from tracegrad.ops.arithmetic import add, multiply
from tracegrad.ops.comparison import equal, less, logical_and, logical_not
from tracegrad.ops.cotangent import zeros
from tracegrad.ops.creation import dimension
from tracegrad.ops.gather import Gather, WriteSource
from tracegrad.ops.operands import operand, positions
from tracegrad.ops.reduction import any as any_of
from tracegrad.ops.select import where
from tracegrad.ops.shape import expand_dims, reshape, transpose
from tracegrad.ops.slicing import slices, take_slice

Shape = tuple[DimLike, ...]
FEW = 1 << 12  # pairs of positions that are compared in any case
MOST_INDICES = 8  # `saves` names inputs by one digit


class Write(Operation):
    """x with a region replaced by `value`, or increased by it (`add`: repeated positions add up).

    The region has `start[a] + step[a] * j` on axis `a`. The integer array `indices[k]` chooses from its first
    `extents[k]` places on axis `axes[k]`; all index arrays have one shape. `value` has their dimensions, then those of
    the other axes in order.
    What is written last to one position stays; where positions may repeat, `value` comes from `LastWrites`, for the
    backward here gives all of its elements the cotangent. Negative positions count from the end; raises
    TracegradIndexError where one is out of range.
    """

    name = "write"
    lower = lowering.Write()
    saves = ("23456789", "23456789")

    @staticmethod
    def forward(
        x: np.ndarray, value: np.ndarray, *indices: np.ndarray, axes: tuple[int, ...], extents: Shape, start: Shape,
        step: tuple[int, ...], add: bool,
    ) -> np.ndarray:  # fmt: skip
        out = np.array(x)
        size = _size(x.ndim, np.shape(value), axes, extents)
        region = out[slices(start, size, step)].transpose(_in_front(x.ndim, axes))  # type: ignore[arg-type]
        try:
            if add:
                np.add.at(region, indices or (...,), value)
            else:
                region[indices or (...,)] = value
        except IndexError as error:
            raise TracegradIndexError(str(error), fix="keep positions between -size and size - 1") from None
        return out

    @staticmethod
    def infer(x: Type, value: Type, *indices: Type, **attrs: Any) -> Type:
        return x.with_shape(x.shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        attrs, value, indices = ctx.attrs, ctx.types[1], ctx.inputs[2:]
        needs = ctx.needs_input_grad
        of_x = of_value = None
        if needs[0]:
            of_x = g if attrs["add"] else Write.apply(g, zeros(value.with_dtype(g.dtype)), *indices, **attrs)
        if needs[1]:
            of_value = _read(g, value.shape, indices, attrs)
        return (of_x, of_value, *(None for _ in indices))


def _in_front(ndim: int, axes: Sequence[int]) -> tuple[int, ...]:
    """All axes, the indexed ones first."""
    return (*axes, *(a for a in range(ndim) if a not in axes))


def _size(ndim: int, value: Shape, axes: tuple[int, ...], extents: Shape) -> Shape:
    """How many places the region has per axis, before the index arrays choose."""
    rest = iter(value[len(value) - (ndim - len(axes)) :])
    return tuple(extents[axes.index(a)] if a in axes else next(rest) for a in range(ndim))


def _read(g: Any, value: Shape, indices: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """The elements of g that a `Write` with these attributes writes to."""
    axes = attrs["axes"]
    region = take_slice(g, attrs["start"], _size(g.ndim, value, axes, attrs["extents"]), attrs["step"])
    return Gather.apply(transpose(region, _in_front(g.ndim, axes)), *map(operand, indices)) if indices else region


class LastWrites(Operation):
    """The value that is going to be written to positions (indices0[n], …, indicesK[n]) of an array of `shape`.

    The cotangent of what a later write replaces is zero. Which those are is only found out for the derivative: by
    comparing all pairs of positions where they are few, else in an array of that shape.
    """

    name = "last_writes"
    saves = ("123456789",)

    @staticmethod
    def forward(value: np.ndarray, *indices: np.ndarray, shape: Shape) -> np.ndarray:
        return np.array(value)

    @staticmethod
    def infer(value: Type, *indices: Type, shape: Shape) -> Type:
        return value.with_shape(value.shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        indices = ctx.inputs[1:]
        last = _are_last(indices, ctx.attrs["shape"])
        kept = reshape(last, (*last.shape, *(1,) * (g.ndim - last.ndim)))
        return (where(kept, g, np.zeros((), g.dtype)), *(None for _ in indices))


def _are_last(indices: Sequence[Any], shape: Shape) -> Any:
    """Whether no later position is the same, for each."""
    count, size = product(indices[0].shape), product(shape)
    numbers = positions(count)
    if not isinstance(count, int) or (isinstance(size, int) and count * count > max(size, FEW)):
        last = Gather.apply(WriteSource.apply(*indices, shape=shape), *indices)
        return equal(last, reshape(numbers, indices[0].shape))
    flat: Any = 0
    for index, dim in zip(indices, shape, strict=True):
        d = dimension(dim)
        flat = add(multiply(flat, d), where(less(index, 0), add(index, d), index))
    flat = reshape(flat, (count,))
    same = logical_and(equal(expand_dims(flat, 1), flat), less(expand_dims(numbers, 1), numbers))
    return reshape(logical_not(any_of(same, axis=1)), indices[0].shape)
