"""Slice and its transpose: the operations that pick regularly spaced elements, and that put them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError
from tracegrad.function import Operation
from tracegrad.ir.dims import Dim, DimLike
from tracegrad.ir.index import Affine, Bound, Piece, Quotient
from tracegrad.ir.lowering import IndexMap
from tracegrad.ir.types import Type
from tracegrad.ops.cotangent import zeros
from tracegrad.ops.operands import as_dim, assume_non_negative, known_non_negative
from tracegrad.state import state

Shape = tuple[DimLike, ...]


def _slice_pieces(
    index: Sequence[Affine], inputs: tuple[Type, ...], out: Type, *, start: Shape, size: Shape, step: tuple[int, ...]
) -> tuple[Piece, ...]:
    return (Piece(0, tuple(i * s + a for i, a, s in zip(index, start, step, strict=True))),)


class Slice(Operation):
    """Per axis `size` elements from `start` on, `step` apart (which may be negative). Eagerly a view."""

    name = "slice"
    lower = IndexMap(_slice_pieces)
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, start: Shape, size: Shape, step: tuple[int, ...]) -> np.ndarray:
        return x[(*slices(start, size, step), ...)]

    @staticmethod
    def infer(x: Type, *, start: Shape, size: Shape, step: tuple[int, ...]) -> Type:
        return x.with_shape(size)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        attrs = ctx.attrs
        return (Unslice.apply(g, shape=ctx.types[0].shape, start=attrs["start"], step=attrs["step"], fill=0),)

    @staticmethod
    def put(x: Any, view: Any, *, start: Shape, size: Shape, step: tuple[int, ...]) -> Any:
        return SliceUpdate.apply(x, view, start=start, step=step)


def slices(start: Sequence[int], size: Sequence[int], step: Sequence[int]) -> tuple[slice, ...]:
    """Python slices that take `size` elements from `start` on, `step` apart."""
    return tuple(
        slice(a, b if (b := a + n * s) >= 0 else None, s) if n else slice(0, 0)
        for a, n, s in zip(start, size, step, strict=True)
    )


def _unslice_pieces(
    index: Sequence[Affine],
    inputs: tuple[Type, ...],
    out: Type,
    *,
    shape: Shape,
    start: Shape,
    step: tuple[int, ...],
    fill: Any,
) -> tuple[Piece, ...]:
    (x,) = inputs
    positions: list[Any] = []
    when: list[Bound] = []
    for i, first, stride, extent, whole in zip(index, start, step, x.shape, shape, strict=True):
        to_end = whole - 1 - first
        distance, least, greatest = (i - first, -first, to_end) if stride > 0 else (i * -1 + first, -to_end, first)
        stride = abs(stride)
        reach = (extent - 1) * stride
        # Bounds that hold everywhere are left out, so that loops over untouched axes stay plain.
        if not known_non_negative(least):
            when.append(Bound(distance))
        if not known_non_negative(reach - greatest):
            when.append(Bound(distance * -1 + reach))
        if stride > 1:
            when.append(Bound(distance, "%", stride))
        positions.append(Quotient(distance, stride) if stride > 1 else distance)
    return (Piece(0, tuple(positions), tuple(when)),)


class Unslice(Operation):
    """The transpose of Slice: an array of `shape` that is `fill`, with the operand put from `start`, `step` apart."""

    name = "unslice"
    lower = IndexMap(_unslice_pieces)
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, shape: tuple[int, ...], start: Shape, step: tuple[int, ...], fill: Any) -> np.ndarray:
        out = np.zeros(shape, x.dtype) if type(fill) is int and fill == 0 else np.full(shape, fill, x.dtype)
        out[slices(start, x.shape, step)] = x
        return out

    @staticmethod
    def infer(x: Type, *, shape: Shape, start: Shape, step: tuple[int, ...], fill: Any) -> Type:
        return x.with_shape(shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        attrs = ctx.attrs
        return (Slice.apply(g, start=attrs["start"], size=ctx.types[0].shape, step=attrs["step"]),)


def _update_pieces(
    index: Sequence[Affine], inputs: tuple[Type, ...], out: Type, *, start: Shape, step: tuple[int, ...]
) -> tuple[Piece, ...]:
    (written,) = _unslice_pieces(index, inputs[1:], out, shape=out.shape, start=start, step=step, fill=0)
    return Piece(1, written.index, written.when), Piece(0, tuple(index))


class SliceUpdate(Operation):
    """The first operand with the second in the place of the elements from `start` on, `step` apart."""

    name = "slice_update"
    lower = IndexMap(_update_pieces)
    saves = ("", "")

    @staticmethod
    def forward(x: np.ndarray, value: np.ndarray, *, start: Shape, step: tuple[int, ...]) -> np.ndarray:
        out = np.array(x)
        out[slices(start, np.shape(value), step)] = value
        return out

    @staticmethod
    def infer(x: Type, value: Type, *, start: Shape, step: tuple[int, ...]) -> Type:
        return x.with_shape(x.shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, Any]:
        value = ctx.types[1]
        start, step = ctx.attrs["start"], ctx.attrs["step"]
        needs = ctx.needs_input_grad
        return (
            SliceUpdate.apply(g, zeros(value.with_dtype(g.dtype)), start=start, step=step) if needs[0] else None,
            Slice.apply(g, start=start, size=value.shape, step=step) if needs[1] else None,
        )


def slice_bounds(wanted: slice, dim: DimLike) -> tuple[DimLike, DimLike, int]:
    """(start, size, step) of a Python slice of an axis of `dim` elements.

    On a symbolic axis the slice is taken to lie within it, which the trace remembers. Raises ValueError for step 0.
    """
    step = 1 if wanted.step is None else as_dim(wanted.step)
    if not isinstance(step, int):
        raise ArgumentError("the step of a slice must be a number", fix="use a constant step")
    bounds = tuple(None if b is None else as_dim(b) for b in (wanted.start, wanted.stop))
    if isinstance(dim, int) and not any(isinstance(b, Dim) for b in bounds):
        taken = range(*slice(*bounds, step).indices(dim))
        return (taken.start if len(taken) else 0), len(taken), step
    if step == 0:
        raise ValueError("slice step cannot be zero")
    limits = (0, dim) if step > 0 else (-1, dim - 1)
    first = _within(bounds[0], dim, limits, limits[step < 0])
    last = _within(bounds[1], dim, limits, limits[step > 0])
    distance = last - first if step > 0 else first - last
    if not assume_non_negative(distance):
        return 0, 0, step
    return first, (distance + (abs(step) - 1)) // abs(step), step


def _within(bound: DimLike | None, dim: DimLike, limits: tuple[DimLike, DimLike], default: DimLike) -> DimLike:
    """A bound of a slice as a position between the limits."""
    if bound is None:
        return default
    if isinstance(bound, int):
        position = bound + dim if bound < 0 else bound
    else:
        position = bound if assume_non_negative(bound) else bound + dim
    if not assume_non_negative(position - limits[0]):
        return limits[0]
    return position if assume_non_negative(limits[1] - position) else limits[1]


def take_slice(x: Any, start: Shape, size: Shape, step: tuple[int, ...]) -> Any:
    """Slice, or the value itself where everything would be taken."""
    if size == x.shape and all(a == 0 for a in start) and all(s == 1 for s in step):
        return x
    return Slice.apply(x, start=start, size=size, step=step)


def slice_axis(x: Any, axis: int, start: DimLike, size: DimLike, step: int = 1) -> Any:
    """`size` elements along one axis, everything along the others."""
    if type(x) is np.ndarray and state.trace is None:
        return x[(*(slice(None),) * axis, *slices((start,), (size,), (step,)))]
    return take_slice(
        x,
        tuple(start if i == axis else 0 for i in range(x.ndim)),
        tuple(size if i == axis else d for i, d in enumerate(x.shape)),
        tuple(step if i == axis else 1 for i in range(x.ndim)),
    )
