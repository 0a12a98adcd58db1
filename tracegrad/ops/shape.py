"""Operations that only move elements, without choosing any: reshaping, reordering and repeating axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.errors import AutogradError, ShapeError, UnsupportedError
from tracegrad.function import Operation
from tracegrad.ir.dims import DimLike, product
from tracegrad.ir.graph import NO_ATTRS
from tracegrad.ir.index import Affine, Piece, constant
from tracegrad.ir.lowering import IndexMap
from tracegrad.ir.lowering import Reshape as ReshapeLowering
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops.base import broadcast_shapes, normalize_axes, normalize_axis, reduced_axes, shape_text
from tracegrad.ops.clone import Clone
from tracegrad.ops.operands import as_shape, operand, remembered
from tracegrad.ops.slicing import Slice as Slice
from tracegrad.ops.slicing import Unslice as Unslice
from tracegrad.ops.slicing import take_slice
from tracegrad.state import state
from tracegrad.tensor import Tensor

Shape = tuple[DimLike, ...]


def _broadcast_pieces(
    index: Sequence[Affine], inputs: tuple[Type, ...], out: Type, *, shape: Shape
) -> tuple[Piece, ...]:
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
            raise cannot_broadcast(x.shape, shape)
        return x.with_shape(shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (g,)  # whoever called sums over the broadcast dimensions


def cannot_broadcast(former: Shape, shape: Shape) -> ShapeError:
    return ShapeError(
        f"cannot broadcast an array of shape {shape_text(former)} to {shape_text(shape)}",
        fix="each size, counted from the last, must be equal or 1; add axes with [:, None] where they are missing",
    )


class Reshape(Operation):
    """The same elements in C order with other dimensions."""

    name = "reshape"
    lower = ReshapeLowering()
    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, shape: Shape) -> np.ndarray:
        return x.reshape(shape) if type(x) is np.ndarray else np.reshape(x, shape)

    @staticmethod
    def infer(x: Type, *, shape: Shape) -> Type:
        if product(shape) != x.size:
            raise cannot_reshape(x.shape, shape)
        return x.with_shape(shape)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (Reshape.apply(g, shape=ctx.types[0].shape),)

    @staticmethod
    def put(x: Any, view: Any, *, shape: Shape) -> Any:
        return Reshape.apply(view, shape=x.shape)


def cannot_reshape(former: Shape, shape: Shape) -> ShapeError:
    return ShapeError(
        f"cannot reshape an array of shape {shape_text(former)} into {shape_text(shape)}",
        fix=f"the sizes must multiply to {product(former)}; one of them may be -1 and is then worked out",
    )


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
        return x.transpose(axes)

    @staticmethod
    def infer(x: Type, *, axes: tuple[int, ...]) -> Type:
        return x.with_shape(tuple(x.shape[a] for a in axes))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        return (Transpose.apply(g, axes=inverse_permutation(ctx.attrs["axes"])),)

    @staticmethod
    def put(x: Any, view: Any, *, axes: tuple[int, ...]) -> Any:
        return Transpose.apply(view, axes=inverse_permutation(axes))


# ---- what is asked about a shape ----------------------------------------------------------------------------------


@implements(np.shape)
def shape(a: Any) -> Shape:
    return operand(a).shape


@implements(np.ndim)
def ndim(a: Any) -> int:
    return operand(a).ndim


@implements(np.size)
def size(a: Any, axis: Any = None) -> DimLike:
    """The number of elements, along one axis or several if given."""
    x = operand(a)
    return product(x.shape[i] for i in normalize_axes(axis, x.ndim))


# ---- other dimensions, same elements ------------------------------------------------------------------------------


@implements(np.reshape)
def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """NumPy's reshape, in order "C" or "F"; one dimension may be -1. Raises ShapeError."""
    x = Clone.apply(operand(a)) if copy else operand(a)
    former = x.shape
    wanted = _completed(former, as_shape(shape))
    if order != "C" and check_order(order) == "F":
        return transpose(reshape(transpose(x), wanted[::-1]))
    return x if former == wanted else Reshape.apply(x, shape=wanted)


@remembered
def _completed(former: Shape, wanted: Shape) -> Shape:
    """The dimensions wanted, with a number in place of -1. Raises ShapeError."""
    size = product(former)
    unknown = [i for i, d in enumerate(wanted) if isinstance(d, int) and d < 0]
    if unknown:
        known = product(d for i, d in enumerate(wanted) if i not in unknown)
        fits = not (isinstance(size, int) and isinstance(known, int)) or (known != 0 and size % known == 0)
        if len(unknown) > 1 or wanted[unknown[0]] != -1 or known == 0 or not fits:
            raise cannot_reshape(former, wanted)
        return tuple(size // known if i == unknown[0] else d for i, d in enumerate(wanted))
    if former != wanted and product(wanted) != size:
        raise cannot_reshape(former, wanted)
    return wanted


def check_order(order: str) -> str:
    if order not in ("C", "F"):
        raise UnsupportedError(
            f"order={order!r} depends on how the array lies in memory, which a traced value does not have",
            fix="use order='C' or order='F'",
        )
    return order


@implements(np.ravel)
def ravel(a: Any, order: str = "C") -> Any:
    """All elements along one axis."""
    x = operand(a)
    return reshape(x, (-1,) if x.size != 0 else (0,), order)


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Any:
    """New axes of size 1 at the positions `axis` of the result."""
    x = operand(a)
    return reshape(x, _expanded(x.shape, axis))


@remembered
def _expanded(shape: Shape, axis: Any) -> Shape:
    ndim = len(shape) + (len(axis) if isinstance(axis, (tuple, list)) else 1)
    axes = normalize_axes(axis, ndim)
    rest = iter(shape)
    return tuple(1 if i in axes else next(rest) for i in range(ndim))


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Any:
    """Without axes of size 1: all of them, or those in `axis`. Raises ShapeError where another size stands there."""
    x = operand(a)
    return reshape(x, _squeezed(x.shape, axis))


@remembered
def _squeezed(shape: Shape, axis: Any) -> Shape:
    axes = tuple(i for i, d in enumerate(shape) if d == 1) if axis is None else reduced_axes(axis, len(shape))
    if any(shape[i] != 1 for i in axes):
        raise ShapeError(
            f"cannot squeeze axis {axis} of an array of shape {shape_text(shape)}: its size is not 1",
            fix="leave axis away to drop all axes of size 1",
        )
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def _at_least(arrays: tuple[Any, ...], to_shape: Any) -> Any:
    results = tuple(reshape(x, to_shape(x.shape)) for x in map(operand, arrays))
    return results[0] if len(results) == 1 else results


@implements(np.atleast_1d)
def atleast_1d(*arys: Any) -> Any:
    return _at_least(arys, lambda shape: shape or (1,))


@implements(np.atleast_2d)
def atleast_2d(*arys: Any) -> Any:
    return _at_least(arys, lambda shape: (1,) * (2 - len(shape)) + shape)


def _three_dimensions(shape: Shape) -> Shape:
    return {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}.get(len(shape), shape)


@implements(np.atleast_3d)
def atleast_3d(*arys: Any) -> Any:
    return _at_least(arys, _three_dimensions)


class _Expansion:
    """What makes a broadcast view of a traced Tensor: it sees what is written to its base, and is read-only."""

    name = "expansion"

    def __init__(self, shape: Any):
        self.shape = shape

    def apply(self, x: Any) -> Any:
        return broadcast_to(x, self.shape)

    def forward(self, x: np.ndarray) -> np.ndarray:
        return np.broadcast_to(x, self.shape)

    def put(self, x: Any, view: Any) -> Any:
        raise AutogradError(
            "a Tensor that was broadcast is modified in place: more than one element may refer to a single memory "
            "location",
            fix="modify a copy: x.clone()",
        )


@implements(np.broadcast_to)
def expanded(array: Any, shape: Any, subok: bool = False) -> Any:
    """NumPy's broadcast_to, whose result is a view. Raises ShapeError."""
    x = operand(array)
    result = broadcast_to(x, shape)
    if state.trace is not None and result is not x and isinstance(x, Tensor):
        memory = state.trace.memory
        memory.note_view(_Expansion(result.shape), memory.own(x), NO_ATTRS, result)
    return result


def broadcast_to(array: Any, shape: Any) -> Any:
    """The value repeated, the value itself where it has that shape. Raises ShapeError."""
    x = operand(array)
    wanted = as_shape(shape)
    if x.shape == wanted:
        return x
    if broadcast_shapes(x.shape, wanted) != wanted:
        raise cannot_broadcast(x.shape, wanted)
    return BroadcastTo.apply(x, shape=wanted)


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    arrays = tuple(map(operand, args))
    common = broadcast_shapes(*(x.shape for x in arrays))
    return tuple(expanded(x, common) for x in arrays)


# ---- other order --------------------------------------------------------------------------------------------------


@implements(np.transpose)
def transpose(a: Any, axes: Any = None) -> Any:
    """NumPy's transpose; all axes reversed without `axes`."""
    x = operand(a)
    order = _order((x.ndim,), axes if axes is None else tuple(axes))
    return x if order is None else Transpose.apply(x, axes=order)


@remembered
def _order(ndims: tuple[int], axes: Any) -> tuple[int, ...] | None:
    """The axes as a permutation of non-negative numbers; None where that changes nothing."""
    (ndim,) = ndims
    order = tuple(reversed(range(ndim))) if axes is None else tuple(normalize_axis(i, ndim) for i in axes)
    if sorted(order) != list(range(ndim)):
        raise ShapeError(
            f"axes {axes} are not a permutation of the {ndim} axes of the array",
            fix="name each axis once",
        )
    return None if order == tuple(range(ndim)) else order


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    x = operand(a)
    i, j = normalize_axis(axis1, x.ndim), normalize_axis(axis2, x.ndim)
    order = list(range(x.ndim))
    order[i], order[j] = j, i
    return transpose(x, order)


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    """The last two axes swapped."""
    x = operand(x)
    if x.ndim < 2:
        raise ShapeError(f"a matrix has at least 2 dimensions, this array has {x.ndim}", fix="add an axis")
    return swapaxes(x, -1, -2)


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """The axes `source` at the positions `destination`, the others in their order."""
    x = operand(a)
    from_, to = (
        tuple(normalize_axis(i, x.ndim) for i in (axes if isinstance(axes, (tuple, list)) else (axes,)))
        for axes in (source, destination)
    )
    if len(from_) != len(to) or len(set(from_)) != len(from_) or len(set(to)) != len(to):
        raise ShapeError(
            f"cannot move the axes {source} to {destination}",
            fix="give as many different destinations as there are different sources",
        )
    order = [i for i in range(x.ndim) if i not in from_]
    for position, axis in sorted(zip(to, from_, strict=True)):
        order.insert(position, axis)
    return transpose(x, order)


@implements(np.rollaxis)
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """The axis before the one that stands at `start` now."""
    x = operand(a)
    axis = normalize_axis(axis, x.ndim)
    if not -x.ndim <= start <= x.ndim:
        raise ShapeError(f"start {start} is out of bounds for an array of dimension {x.ndim}")
    start = start + x.ndim if start < 0 else start
    return moveaxis(x, axis, start - 1 if axis < start else start)


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Any:
    """The order of the elements reversed along all axes, or those given."""
    x = operand(m)
    axes = normalize_axes(axis, x.ndim)
    return take_slice(
        x,
        tuple(d - 1 if i in axes else 0 for i, d in enumerate(x.shape)),
        x.shape,
        tuple(-1 if i in axes else 1 for i in range(x.ndim)),
    )


def _need_ndim(x: Any, least: int, name: str) -> None:
    if x.ndim < least:
        raise ShapeError(f"np.{name} needs an array of at least {least} dimensions, got {x.ndim}")


@implements(np.fliplr)
def fliplr(m: Any) -> Any:
    x = operand(m)
    _need_ndim(x, 2, "fliplr")
    return flip(x, 1)


@implements(np.flipud)
def flipud(m: Any) -> Any:
    x = operand(m)
    _need_ndim(x, 1, "flipud")
    return flip(x, 0)


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """Turned by k times 90 degrees in the plane of two axes, from the first towards the second."""
    x = operand(m)
    first, second = (normalize_axis(i, x.ndim) for i in axes)
    if first == second:
        raise ShapeError(f"the axes {tuple(axes)} span no plane", fix="name two different axes")
    turns = k % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, (first, second))
    return swapaxes(flip(x, second), first, second) if turns == 1 else flip(swapaxes(x, first, second), second)
