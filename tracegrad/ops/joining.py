"""Joining arrays along axes, and cutting them up again."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.function import Operation
from tracegrad.ir.dims import DimLike
from tracegrad.ir.index import Affine, Bound, Piece
from tracegrad.ir.lowering import IndexMap
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops.base import normalize_axis, shape_text
from tracegrad.ops.casting import astype
from tracegrad.ops.operands import as_dim, operand, static_integers
from tracegrad.ops.shape import (
    Reshape,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_arrays,
    expand_dims,
    ravel,
    reshape,
    squeeze,
    transpose,
)
from tracegrad.ops.slicing import slice_axis, slice_bounds
from tracegrad.state import state
from tracegrad.tensor import Tensor


def _concatenate_pieces(
    index: Sequence[Affine], inputs: tuple[Type, ...], out: Type, *, axis: int
) -> tuple[Piece, ...]:
    pieces, start = [], 0
    for number, x in enumerate(inputs):
        inner = index[axis] - start
        start = start + x.shape[axis]
        # Pieces stand in order of precedence, so that an upper bound is enough; the last one needs none.
        when = () if number == len(inputs) - 1 else (Bound(index[axis] * -1 + (start - 1)),)
        pieces.append(Piece(number, (*index[:axis], inner, *index[axis + 1 :]), when))
    return tuple(pieces)


class Concatenate(Operation):
    """The operands one after the other along an axis; they have one dtype and the other dimensions in common."""

    name = "concatenate"
    lower = IndexMap(_concatenate_pieces, ascending=True)

    @staticmethod
    def forward(*arrays: np.ndarray, axis: int) -> np.ndarray:
        try:
            return np.concatenate(arrays, axis)
        except ValueError:
            raise cannot_join([a.shape for a in arrays], axis) from None

    @staticmethod
    def infer(*types: Type, axis: int) -> Type:
        first = types[0].shape
        total: DimLike = 0
        for t in types:
            if len(t.shape) != len(first) or any(d != e for i, (d, e) in enumerate(zip(t.shape, first)) if i != axis):
                raise cannot_join([t.shape for t in types], axis)
            total = total + t.shape[axis]
        return types[0].with_shape((*first[:axis], total, *first[axis + 1 :]))

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        axis = ctx.attrs["axis"]
        grads, start = [], 0
        for x, needed in zip(ctx.types, ctx.needs_input_grad, strict=True):
            grads.append(slice_axis(g, axis, start, x.shape[axis]) if needed else None)
            start = start + x.shape[axis]
        return tuple(grads)


def cannot_join(shapes: Iterable[tuple[DimLike, ...]], axis: int) -> ShapeError:
    texts = ", ".join(map(shape_text, shapes))
    return ShapeError(
        f"cannot concatenate arrays of the shapes {texts} along axis {axis}",
        fix="their number of dimensions and all sizes but that along the axis must be equal",
    )


def _operands(arrays: Any, name: str) -> tuple[Any, ...]:
    """The elements of a sequence, or of an array along its first axis, as operands."""
    if isinstance(arrays, (Tensor, np.ndarray)):
        if arrays.ndim == 0:
            raise ShapeError(f"np.{name} needs a sequence of arrays, got a single number")
        return unstack(arrays)
    if not isinstance(arrays, Iterable):
        raise ArgumentError(f"np.{name} needs a sequence of arrays", fix=f"write np.{name}([x, y])")
    found = tuple(map(operand, arrays))
    if not found:
        raise ShapeError(f"np.{name} needs at least one array")
    return found


# ---- joining ------------------------------------------------------------------------------------------------------


@implements(np.concatenate)
def concatenate(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """NumPy's concatenate; `axis=None` joins the flattened arrays. Raises ShapeError."""
    if out is not None:
        raise ArgumentError("np.concatenate has no out= here", fix="assign the result instead")
    parts = _operands(arrays, "concatenate")
    if axis is None:
        parts, axis = tuple(map(ravel, parts)), 0
    if parts[0].ndim == 0:
        raise ShapeError("zero-dimensional arrays cannot be concatenated", fix="use np.stack")
    axis = normalize_axis(axis, parts[0].ndim)
    dtypes = [p.dtype for p in parts]
    if dtype is not None or dtypes.count(dtypes[0]) != len(dtypes) or not dtypes[0].isnative:
        common = np.result_type(*dtypes) if dtype is None else np.dtype(dtype)
        if not all(np.can_cast(d, common, casting) for d in dtypes):
            raise ArgumentError(f"cannot cast to {common} by the rule {casting!r}", fix="pass casting='unsafe'")
        parts = tuple(astype(p, common) for p in parts)
    return Concatenate.apply(*parts, axis=axis)


@implements(np.stack)
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays of one shape along a new axis. Raises ShapeError."""
    parts = _operands(arrays, "stack")
    if any(p.shape != parts[0].shape for p in parts):
        raise ShapeError(
            "np.stack needs arrays of one shape, got " + ", ".join(shape_text(p.shape) for p in parts),
            fix="use np.concatenate for arrays of different sizes",
        )
    axis = normalize_axis(axis, parts[0].ndim + 1)
    if state.trace is not None and all(isinstance(p, Tensor) for p in parts):
        if out is None and dtype is None and (joined := state.trace.stack(parts, axis)) is not None:
            return joined
        shape = (*parts[0].shape[:axis], 1, *parts[0].shape[axis:])
        rows = [Reshape.apply(p, shape=shape) for p in parts]
        return concatenate(rows, axis, out, dtype=dtype, casting=casting)
    return concatenate([expand_dims(p, axis) for p in parts], axis, out, dtype=dtype, casting=casting)


@implements(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    return concatenate(list(map(atleast_2d, _operands(tup, "vstack"))), 0, dtype=dtype, casting=casting)


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    parts = list(map(atleast_1d, _operands(tup, "hstack")))
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@implements(np.dstack)
def dstack(tup: Any) -> Any:
    return concatenate(list(map(atleast_3d, _operands(tup, "dstack"))), 2)


@implements(np.column_stack)
def column_stack(tup: Any) -> Any:
    parts = _operands(tup, "column_stack")
    return concatenate([transpose(atleast_2d(p)) if p.ndim < 2 else p for p in parts], 1)


@implements(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    return concatenate([ravel(arr), ravel(values)] if axis is None else [arr, values], 0 if axis is None else axis)


@implements(np.block)
def block(arrays: Any) -> Any:
    """Nested lists of blocks joined along the last axis inside, along earlier ones outside."""
    depth = _list_depth(arrays)
    ndim = max(depth, max(operand(leaf).ndim for leaf in _leaves(arrays)))
    return _join_blocks(arrays, depth, ndim)


def _list_depth(arrays: Any) -> int:
    if isinstance(arrays, tuple):
        raise ArgumentError("np.block takes lists, not tuples", fix="write [a, b] instead of (a, b)")
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ShapeError("a list of np.block is empty")
    depths = {_list_depth(a) for a in arrays}
    if len(depths) > 1:
        raise ShapeError("the lists of np.block have different depths", fix="nest all blocks equally deep")
    return depths.pop() + 1


def _leaves(arrays: Any) -> Iterable[Any]:
    if isinstance(arrays, list):
        for a in arrays:
            yield from _leaves(a)
    else:
        yield arrays


def _join_blocks(arrays: Any, depth: int, ndim: int) -> Any:
    if depth == 0:
        x = operand(arrays)
        return reshape(x, (1,) * (ndim - x.ndim) + x.shape)
    return concatenate([_join_blocks(a, depth - 1, ndim) for a in arrays], -depth)


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Any, ...]:
    """Coordinate arrays of a grid, one per vector."""
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"indexing must be 'xy' or 'ij', not {indexing!r}")
    count = len(xi)
    places = list(range(count))
    if indexing == "xy" and count > 1:
        places[0], places[1] = 1, 0
    grids = tuple(
        reshape(x, tuple(-1 if i == place else 1 for i in range(count)))
        for x, place in zip(map(operand, xi), places, strict=True)
    )
    return grids if sparse else broadcast_arrays(*grids)


# ---- cutting up ---------------------------------------------------------------------------------------------------


@implements(np.unstack)
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The elements along an axis, one by one."""
    x = operand(x)
    axis = normalize_axis(axis, x.ndim)
    return tuple(squeeze(slice_axis(x, axis, i, 1), axis) for i in range(x.shape[axis]))


def _is_sequence(x: Any) -> bool:
    return isinstance(x, (list, tuple)) or (isinstance(x, (Tensor, np.ndarray)) and x.ndim > 0)


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Cut at the given positions, or into so many parts whose sizes differ by at most one."""
    x = operand(ary)
    axis = normalize_axis(axis, x.ndim)
    size = x.shape[axis]
    if _is_sequence(indices_or_sections):
        cuts = [0, *static_integers(indices_or_sections), size]
    else:
        sections = as_dim(indices_or_sections)
        if sections <= 0:
            raise ShapeError(f"the number of parts must be positive, not {sections}")
        each, larger = size // sections, size - size // sections * sections
        cuts = [i * each + min(i, larger) if isinstance(larger, int) else i * each for i in range(sections + 1)]
        if not isinstance(larger, int):
            raise ShapeError(f"cannot tell whether {sections} divides {size}", fix="give the positions of the cuts")
    return [_part(x, axis, a, b) for a, b in itertools.pairwise(cuts)]


def _part(x: Any, axis: int, start: DimLike, stop: DimLike) -> Any:
    first, size, _ = slice_bounds(slice(start, stop), x.shape[axis])
    return slice_axis(x, axis, first, size)


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """As array_split, but into parts of one size. Raises ShapeError where that does not go."""
    x = operand(ary)
    size = x.shape[normalize_axis(axis, x.ndim)]
    if not _is_sequence(indices_or_sections):
        sections = as_dim(indices_or_sections)
        if size // sections * sections != size:
            raise ShapeError(
                f"an axis of size {size} does not split into {sections} equal parts",
                fix="use np.array_split for parts of unequal sizes",
            )
    return array_split(x, indices_or_sections, axis)


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    _need(ary, 2, "vsplit")
    return split(ary, indices_or_sections, 0)


@implements(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    _need(ary, 1, "hsplit")
    return split(ary, indices_or_sections, 0 if operand(ary).ndim == 1 else 1)


@implements(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    _need(ary, 3, "dsplit")
    return split(ary, indices_or_sections, 2)


def _need(x: Any, least: int, name: str) -> None:
    if operand(x).ndim < least:
        raise ShapeError(f"np.{name} works on arrays of at least {least} dimensions")
