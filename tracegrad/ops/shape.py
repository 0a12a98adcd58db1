"""Operations that only move elements: their loop meaning is an index map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ShapeError
from tracegrad.function import Operation
from tracegrad.ir.dims import DimLike, product
from tracegrad.ir.index import Affine, Bound, Piece, Quotient, constant
from tracegrad.ir.lowering import IndexMap, Reshape as ReshapeLowering
from tracegrad.ir.types import Type
from tracegrad.ops.base import broadcast_shapes, normalize_axes, normalize_axis, shape_text

Shape = tuple[DimLike, ...]


def _broadcast_pieces(index: Sequence[Affine], inputs: tuple[Type, ...], out: Type, *, shape: Shape) -> tuple[Piece, ...]:
    (x,) = inputs
    kept = index[len(index) - x.ndim :]
    return (Piece(0, tuple(constant(0) if dim == 1 else i for i, dim in zip(kept, x.shape, strict=True))),)


class BroadcastTo(Operation):
    """The value repeated along new axes and axes of size 1."""

    name = "broadcast_to"
    lower = IndexMap(_broadcast_pieces)
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, shape: Shape) -> np.ndarray:
        return np.broadcast_to(x, shape)

    @staticmethod
    def infer(x: Type, *, shape: Shape) -> Type:
        if broadcast_shapes(x.shape, shape) != shape:
            raise ShapeError(f"cannot broadcast an array of shape {shape_text(x.shape)} to {shape_text(shape)}")
        return x.with_shape(shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (g,)  # whoever called sums over the broadcast dimensions


class Reshape(Operation):
    """The same elements in C order with other dimensions."""

    name = "reshape"
    lower = ReshapeLowering()
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, shape: Shape) -> np.ndarray:
        return np.reshape(x, shape)

    @staticmethod
    def infer(x: Type, *, shape: Shape) -> Type:
        if product(shape) != x.size:
            raise ShapeError(f"cannot reshape an array of shape {shape_text(x.shape)} into {shape_text(shape)}")
        return x.with_shape(shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (Reshape.apply(g, shape=ctx.types[0].shape),)


def _transpose_pieces(
    index: Sequence[Affine], inputs: tuple[Type, ...], out: Type, *, axes: tuple[int, ...]
) -> tuple[Piece, ...]:
    return (Piece(0, tuple(index[i] for i in inverse_permutation(axes))),)


def inverse_permutation(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


class Transpose(Operation):
    """Axis i of the result is axis `axes[i]` of the operand."""

    name = "transpose"
    lower = IndexMap(_transpose_pieces)
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
        return np.transpose(x, axes)

    @staticmethod
    def infer(x: Type, *, axes: tuple[int, ...]) -> Type:
        return x.with_shape(tuple(x.shape[a] for a in axes))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (Transpose.apply(g, axes=inverse_permutation(ctx.attrs["axes"])),)


def _slice_pieces(
    index: Sequence[Affine], inputs: tuple[Type, ...], out: Type, *, start: Shape, size: Shape, step: tuple[int, ...]
) -> tuple[Piece, ...]:
    return (Piece(0, tuple(i * s + a for i, a, s in zip(index, start, step, strict=True))),)


class Slice(Operation):
    """Per axis `size` elements from `start` on, `step` apart (which may be negative)."""

    name = "slice"
    lower = IndexMap(_slice_pieces)
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, start: Shape, size: Shape, step: tuple[int, ...]) -> np.ndarray:
        return x[slices(start, size, step)]

    @staticmethod
    def infer(x: Type, *, start: Shape, size: Shape, step: tuple[int, ...]) -> Type:
        return x.with_shape(size)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        attrs = ctx.attrs
        return (Unslice.apply(g, shape=ctx.types[0].shape, start=attrs["start"], step=attrs["step"], fill=0),)


def slices(start: Sequence[int], size: Sequence[int], step: Sequence[int]) -> tuple[slice, ...]:
    """Python slices that take `size` elements from `start` on, `step` apart."""
    return tuple(
        slice(a, b if (b := a + n * s) >= 0 else None, s) if n else slice(0, 0)
        for a, n, s in zip(start, size, step, strict=True)
    )


def _unslice_pieces(
    index: Sequence[Affine], inputs: tuple[Type, ...], out: Type, *, shape: Shape, start: Shape, step: tuple[int, ...], fill: Any
) -> tuple[Piece, ...]:
    (x,) = inputs
    positions: list[Any] = []
    when: list[Bound] = []
    for i, first, stride, extent in zip(index, start, step, x.shape, strict=True):
        distance = (i - first) * (1 if stride > 0 else -1)
        stride = abs(stride)
        if extent == 0:
            when.append(Bound(constant(-1)))
        when.append(Bound(distance))
        when.append(Bound(distance * -1 + (extent - 1) * stride))
        if stride > 1:
            when.append(Bound(distance, "%", stride))
        positions.append(Quotient(distance, stride) if stride > 1 else distance)
    return (Piece(0, tuple(positions), tuple(when)),)


class Unslice(Operation):
    """The transpose of Slice: an array of `shape` that is `fill`, with the operand placed from `start`, `step` apart."""

    name = "unslice"
    lower = IndexMap(_unslice_pieces)
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, shape: Shape, start: Shape, step: tuple[int, ...], fill: Any) -> np.ndarray:
        out = np.full(shape, fill, x.dtype)
        out[slices(start, x.shape, step)] = x
        return out

    @staticmethod
    def infer(x: Type, *, shape: Shape, start: Shape, step: tuple[int, ...], fill: Any) -> Type:
        return x.with_shape(shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        attrs = ctx.attrs
        return (Slice.apply(g, start=attrs["start"], size=ctx.types[0].shape, step=attrs["step"]),)


def broadcast_to(x: Any, shape: Shape) -> Any:
    """NumPy's broadcast_to; the value itself where it has that shape."""
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    return x if x.shape == shape else BroadcastTo.apply(x, shape=shape)


def expand_dims(x: Any, axis: Any) -> Any:
    """New axes of size 1 at the positions `axis` of the result."""
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = normalize_axes(axis, x.ndim + count)
    rest = iter(x.shape)
    return reshape(x, tuple(1 if i in axes else next(rest) for i in range(x.ndim + count)))


def reshape(x: Any, shape: Any) -> Any:
    """NumPy's reshape in C order; one dimension may be -1."""
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if any(isinstance(d, int) and d == -1 for d in shape):
        known = product(d for d in shape if not (isinstance(d, int) and d == -1))
        if isinstance(x.size, int) and isinstance(known, int) and (known == 0 or x.size % known):
            raise ShapeError(f"cannot reshape an array of shape {shape_text(x.shape)} into {shape_text(shape)}")
        shape = tuple(x.size // known if isinstance(d, int) and d == -1 else d for d in shape)
    return x if x.shape == shape else Reshape.apply(x, shape=shape)


def transpose(x: Any, axes: Any = None) -> Any:
    """NumPy's transpose; all axes reversed without `axes`."""
    ndim = x.ndim
    order = tuple(reversed(range(ndim))) if axes is None else tuple(normalize_axis(a, ndim) for a in axes)
    if sorted(order) != list(range(ndim)):
        raise ShapeError(f"axes {tuple(axes)} are not a permutation of the {ndim} axes")
    return x if order == tuple(range(ndim)) else Transpose.apply(x, axes=order)
