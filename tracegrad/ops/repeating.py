"""Elements repeated, rolled, inserted and left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ShapeError, UnsupportedError
from tracegrad.function import Operation
from tracegrad.ir.dims import DimLike
from tracegrad.ir.types import Type
from tracegrad.numpy_protocols import implements
from tracegrad.ops.base import is_whole, normalize_axis, shape_text
from tracegrad.ops.casting import astype
from tracegrad.ops.index_plan import position_in
from tracegrad.ops.indexing import true_positions
from tracegrad.ops.joining import Concatenate, concatenate
from tracegrad.ops.operands import as_dim, as_shape, assume_non_negative, guarded_int, lifted, operand, static_integers
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.shape import broadcast_to, moveaxis, ravel, reshape
from tracegrad.ops.slicing import slice_axis, slice_bounds
from tracegrad.ops.taking import take
from tracegrad.tensor import Tensor


class RepeatPositions(Operation):
    """Position i of the operand, a vector of counts, as often as its element i says; `total` positions altogether.

    Counts that sum to something else are cut off or filled up with zeros: whoever records it guards the total.
    """

    name = "repeat_positions"
    differentiable = False

    @staticmethod
    def forward(counts: np.ndarray, *, total: int) -> np.ndarray:
        found = np.repeat(np.arange(counts.size), np.maximum(counts, 0))
        return found if found.size == total else np.resize(found if found.size else np.zeros(1, np.intp), total)

    @staticmethod
    def infer(counts: Type, *, total: int) -> Type:
        return Type(np.dtype(np.intp), (total,))


def copied(x: Any) -> Any:
    """The same elements in memory of their own."""
    flat = Concatenate.apply(x if x.ndim else reshape(x, (1,)), axis=0)
    return flat if x.ndim else reshape(flat, ())


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """Each element of an axis (of all, flattened, without `axis`) `repeats` times, or as often as its entry says."""
    x = operand(a)
    if axis is None or is_whole(axis, x.ndim):
        x, axis = ravel(x), 0
    axis = normalize_axis(axis, x.ndim)
    if not isinstance(repeats, (list, tuple)) and not getattr(repeats, "ndim", 0):
        return _repeat_each(x, as_dim(repeats), axis)
    counts = operand(repeats)
    if counts.shape == (1,):
        return _repeat_each(x, static_integers(counts)[0], axis)
    if counts.shape != (x.shape[axis],):
        raise ShapeError(
            f"repeats of shape {shape_text(counts.shape)} do not go with an axis of size {x.shape[axis]}",
            fix="give one number, or one per element of the axis",
        )
    if x.shape[axis] == 0:
        return copied(x)  # no counts; an empty list of them has no integer dtype
    counts = lifted(counts)
    return take(x, RepeatPositions.apply(counts, total=guarded_int(tensor_sum(counts))), axis)


def _repeat_each(x: Any, times: DimLike, axis: int) -> Any:
    if not assume_non_negative(times):
        raise ShapeError(f"repeats may not be negative, got {times}")
    before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    spread = broadcast_to(reshape(x, (*before, size, 1, *after)), (*before, size, times, *after))
    return copied(x) if times == 1 else reshape(spread, (*before, size * times, *after))


@implements(np.tile)
def tile(A: Any, reps: Any) -> Any:
    """The array laid side by side `reps` times along each axis."""
    x = operand(A)
    times = as_shape(reps)
    ndim = max(x.ndim, len(times))
    shape = (1,) * (ndim - x.ndim) + x.shape
    times = (1,) * (ndim - len(times)) + times
    if all(t == 1 for t in times):
        return copied(reshape(x, shape))
    pairs = tuple(zip(times, shape, strict=True))
    spread = broadcast_to(reshape(x, tuple(e for d in shape for e in (1, d))), tuple(e for pair in pairs for e in pair))
    return reshape(spread, tuple(t * d for t, d in pairs))


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Elements moved along axes; what leaves at the end comes in at the start."""
    x = operand(a)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = as_shape(shift)
    if len(shifts) != len(axes):
        if 1 not in (len(shifts), len(axes)):
            raise ShapeError(f"{len(shifts)} shifts do not go with {len(axes)} axes")
        count = max(len(shifts), len(axes))
        shifts, axes = (tuple(v) * (count if len(v) == 1 else 1) for v in (shifts, axes))
    rolled = copied(x) if all(s == 0 for s in shifts) else x
    for by, along in zip(shifts, axes, strict=True):
        rolled = _roll_axis(rolled, by, normalize_axis(along, x.ndim))
    return rolled


def _roll_axis(x: Any, by: DimLike, axis: int) -> Any:
    size = x.shape[axis]
    if isinstance(size, int) and isinstance(by, int):
        by = by % size if size else 0
    if by == 0:
        return x
    cut = -by if isinstance(by, int) and by < 0 else size - by
    if not assume_non_negative(cut) or not assume_non_negative(size - cut):
        raise UnsupportedError("a roll by more than an axis of symbolic size has", fix="compile for fixed sizes")
    return concatenate([slice_axis(x, axis, cut, size - cut), slice_axis(x, axis, 0, cut)], axis)


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """Without the elements of an axis at the positions `obj`: an int, a slice, a list or a mask."""
    x = ravel(arr) if axis is None else operand(arr)
    axis = 0 if axis is None else normalize_axis(axis, x.ndim)
    size = x.shape[axis]
    if isinstance(obj, slice):
        start, count, step = slice_bounds(obj, size)
        if step < 0:
            start, step = start + (count - 1) * step, -step
        if step == 1:
            return _without(x, axis, start, count)
        return take(x, np.delete(np.arange(size), obj), axis)
    if getattr(obj, "dtype", np.dtype(int)).kind == "b":
        return take(x, true_positions(np.logical_not(lifted(obj))), axis)
    if isinstance(obj, (list, tuple, np.ndarray, Tensor)) and np.ndim(obj):
        return take(x, np.delete(np.arange(size), list(static_integers(obj))), axis)
    return _without(x, axis, position_in(as_dim(obj), size, axis), 1)


def _without(x: Any, axis: int, start: DimLike, count: DimLike) -> Any:
    end = start + count
    return concatenate([slice_axis(x, axis, 0, start), slice_axis(x, axis, end, x.shape[axis] - end)], axis)


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """With `values` before the positions `obj` of an axis: an int, a slice, a list or a mask of known numbers."""
    x = ravel(arr) if axis is None else operand(arr)
    axis = 0 if axis is None else normalize_axis(axis, x.ndim)
    single = not isinstance(obj, slice) and not np.ndim(obj)
    if isinstance(obj, slice):
        places = np.arange(x.shape[axis])[obj]
    elif getattr(obj, "dtype", None) == np.dtype(bool):
        places = np.array(static_integers(true_positions(obj)), np.intp)
    else:
        places = np.array([as_dim(obj)] if single else static_integers(obj), np.intp)
    new = astype(operand(values), x.dtype)
    new = reshape(new, (1,) * (x.ndim - new.ndim) + new.shape)
    if single:
        new = moveaxis(new, 0, axis)
    count = new.shape[axis] if len(places) == 1 else len(places)
    new = broadcast_to(new, (*x.shape[:axis], count, *x.shape[axis + 1 :]))
    size = x.shape[axis]
    target = places[0] if len(places) == 1 else places
    order = np.insert(np.arange(size), target, size + np.arange(count))
    return take(concatenate([x, new], axis), order, axis)
