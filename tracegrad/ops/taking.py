"""NumPy's functions that take elements by positions, masks and choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError, TracegradIndexError
from tracegrad.ir.dims import DimLike, product
from tracegrad.numpy_protocols import implements
from tracegrad.ops.base import broadcast_shapes, is_whole, normalize_axis
from tracegrad.ops.casting import astype
from tracegrad.ops.creation import dimension
from tracegrad.ops.index_writes import index_update
from tracegrad.ops.indexing import broadcast_indices, getitem, true_positions
from tracegrad.ops.joining import stack
from tracegrad.ops.operands import lifted, operand, positions
from tracegrad.ops.select import where
from tracegrad.ops.shape import (
    broadcast_arrays,
    broadcast_to,
    expand_dims,
    ravel,
    reshape,
    shape,
    squeeze,
)


@implements(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    """Elements of one axis (of all, flattened, without `axis`); `mode` is raise, wrap or clip."""
    _no_out(out, "take")
    x = operand(a)
    if axis is None or is_whole(axis, x.ndim):
        x, axis = ravel(x), 0
    axis = normalize_axis(axis, x.ndim)
    places = _in_mode(indices, x.shape[axis], mode)
    return getitem(x, (*(slice(None),) * axis, places))


def _in_mode(indices: Any, size: DimLike, mode: str) -> Any:
    indices = operand(indices)
    if indices.size == 0 and indices.dtype.kind == "f":
        indices = np.zeros(indices.shape, np.intp)
    if mode == "raise":
        return indices
    if mode == "wrap":
        return np.remainder(lifted(indices), dimension(size))
    if mode == "clip":
        return np.clip(lifted(indices), 0, dimension(size - 1))
    raise ArgumentError(f"mode must be 'raise', 'wrap' or 'clip', not {mode!r}")


def _no_out(out: Any, name: str) -> None:
    if out is not None:
        raise ArgumentError(f"np.{name} has no out= here", fix="assign the result instead")


def index_arrays_along(x: Any, indices: Any, axis: int) -> tuple[Any, ...]:
    """Index arrays of one shape that run over all axes in step, except one that `indices` chooses from."""
    if indices.ndim != x.ndim:
        raise ShapeError(
            f"the indices have {indices.ndim} dimensions, the array {x.ndim}",
            fix="give the indices the array's shape except along the axis",
        )
    if indices.dtype.kind not in "iu":
        raise TracegradIndexError(f"the indices must be integers, not {indices.dtype}")
    arrays = [
        indices if i == axis else reshape(positions(d), tuple(d if j == i else 1 for j in range(x.ndim)))
        for i, d in enumerate(x.shape)
    ]
    return broadcast_indices(arrays)


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """`out[i, j, k] = arr[i, indices[i, j, k], k]` for axis 1, and so on."""
    x, indices = operand(arr), operand(indices)
    if axis is None:
        return getitem(ravel(x), indices)
    return getitem(x, index_arrays_along(x, indices, normalize_axis(axis, x.ndim)))


def update_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> Any:
    """A copy of `arr` after `np.put_along_axis(arr, indices, values, axis)`."""
    x, indices = operand(arr), operand(indices)
    if axis is None:
        return reshape(index_update(ravel(x), indices, values), x.shape)
    return index_update(x, index_arrays_along(x, indices, normalize_axis(axis, x.ndim)), values)


@implements(np.nonzero)
def nonzero(a: Any) -> tuple[Any, ...]:
    """Per axis the positions of the elements that are not zero; how many there are is guarded while tracing."""
    x = operand(a)
    flat = flatnonzero(x)
    out = []
    for axis in range(x.ndim):
        inner = product(x.shape[axis + 1 :])
        out.append(
            np.remainder(np.floor_divide(flat, dimension(inner)), dimension(x.shape[axis])) if flat.size else flat
        )
    return tuple(out)


@implements(np.flatnonzero)
def flatnonzero(a: Any) -> Any:
    x = lifted(a)
    return true_positions(x if x.dtype.kind == "b" else np.not_equal(x, 0))


@implements(np.argwhere)
def argwhere(a: Any) -> Any:
    x = operand(a)
    if x.ndim == 0:
        return np.zeros((flatnonzero(x).size, 0), np.intp)
    return stack(nonzero(x), axis=1)


@implements(np.compress)
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """Where a vector of conditions is true, the elements of one axis (of all, flattened, without `axis`)."""
    _no_out(out, "compress")
    condition = operand(condition)
    if condition.ndim != 1:
        raise ShapeError("the condition must be one-dimensional", fix="for a mask of more dimensions use x[mask]")
    return take(a, flatnonzero(condition), axis)


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    """The elements where the condition is true, flattened."""
    return compress(ravel(condition), ravel(arr))


@implements(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """Element by element from the choice whose number stands in `a`."""
    _no_out(out, "choose")
    choices = [*choices] if isinstance(choices, (list, tuple)) else [choices[i] for i in range(len(choices))]
    number, *options = broadcast_arrays(lifted(a), *map(lifted, choices))
    stacked = stack(options)
    return squeeze(take_along_axis(stacked, expand_dims(_in_mode(number, len(options), mode), 0), 0), 0)


@implements(np.select)
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Element by element the choice whose condition is the first to hold, else `default`."""
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ShapeError(
            f"np.select needs as many choices as conditions and at least one, got {len(choicelist)} and {len(condlist)}"
        )
    options = [c if type(c) in (int, float, complex) else operand(c) for c in (*choicelist, default)]
    dtype = np.result_type(*(c if type(c) in (int, float, complex) else c.dtype for c in options))
    *choices, out = [np.asarray(c, dtype) if type(c) in (int, float, complex) else astype(c, dtype) for c in options]
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        out = where(condition, choice, out)
    return broadcast_to(out, broadcast_shapes(*map(shape, (*condlist, *choices, out))))
