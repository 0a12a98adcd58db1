"""Writes at indices, as functions: copies of arrays after `x[index] = value` and `np.add.at(x, index, value)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.ir.dims import DimLike, product
from tracegrad.ops.casting import astype, fitting
from tracegrad.ops.gather import CombineAt, Gather, ScatterAdd, WriteSource
from tracegrad.ops.index_plan import IndexPlan, plan_index
from tracegrad.ops.indexing import getitem, index_arrays, orders, region_of
from tracegrad.ops.operands import lifted, operand, positions
from tracegrad.ops.select import where
from tracegrad.ops.shape import (
    Reshape,
    broadcast_to,
    inverse_permutation,
    ravel,
    reshape,
    transpose,
)
from tracegrad.ops.slicing import SliceUpdate, Unslice, take_slice
from tracegrad.ops.writes import MOST_INDICES, LastWrites, Write
from tracegrad.state import state
from tracegrad.tensor import Tensor


def record_write(x: Tensor, index: Any, value: Any) -> bool:
    """Record `x[index] = value` at once, for the most frequent indices of what needs no care. False for others."""
    if x._array is not None or value.__class__ is not Tensor or value._array is not None:
        return False
    type, given = x._var.type, value._var.type
    if given.dtype != type.dtype or given.weak or type.weak:
        return False
    found = region_of(type.shape, index)
    return found is not None and given.shape == found[3] and state.trace.write_region(x, value, *found)  # type: ignore[union-attr]


def index_update(x: Any, index: Any, value: Any) -> Any:
    """A copy of x after `x[index] = value`: `value` is broadcast and cast to x's dtype.

    Of several writes to one element the last one wins, and it alone gets the gradient.
    """
    x = operand(x)
    value = astype(operand(fitting(value, x.dtype)), x.dtype)
    region = region_of(x.shape, index)
    if region is not None:
        start, size, step, kept = region
        value = value if value.shape == kept else _broadcast_value(value, kept)
        return SliceUpdate.apply(x, value if kept == size else Reshape.apply(value, shape=size), start=start, step=step)
    plan = plan_index(x.shape, index)
    if not plan.arrays:
        region = reshape(_broadcast_value(value, plan.middle), plan.size)
        if plan.size == x.shape and all(s == 1 for s in plan.step):
            return region
        return SliceUpdate.apply(x, region, start=plan.start, step=plan.step)
    if (masked := _write_masked(x, plan, value, False)) is not None:
        return masked
    arrays = index_arrays(plan)
    if _writable(plan, arrays):
        return _write(x, plan, arrays, value, False)
    return _replace(x, plan, arrays, _write_rows, value)


def index_add(x: Any, index: Any, value: Any) -> Any:
    """A copy of x after `np.add.at(x, index, value)`: what is written to one element several times adds up."""
    x = operand(x)
    plan = plan_index(x.shape, index)
    value = astype(operand(value), x.dtype)
    if not plan.arrays:
        region = reshape(_broadcast_value(value, plan.middle), plan.size)
        return np.add(x, Unslice.apply(region, shape=x.shape, start=plan.start, step=plan.step, fill=0))
    if (masked := _write_masked(x, plan, value, True)) is not None:
        return masked
    arrays = index_arrays(plan)
    if _writable(plan, arrays) and x.dtype.kind != "b":
        return _write(x, plan, arrays, value, True)
    return _replace(x, plan, arrays, _add_rows, value)


def combine_at(x: Any, index: Any, value: Any, *, subtract: bool) -> Any:
    """A copy of x after `np.add.at(x, index, value)`, or np.subtract.at, of values whose dtype x cannot hold."""
    size = product(x.shape)
    places = getitem(reshape(lifted(positions(size)), x.shape), index)
    value = ravel(_broadcast_value(operand(value), places.shape))
    return reshape(CombineAt.apply(reshape(x, (size,)), ravel(places), value, subtract=subtract), x.shape)


def _writable(plan: IndexPlan, arrays: Sequence[Any]) -> bool:
    """Whether what the index names is one region: each array indexes one axis."""
    return all(plan.origin[a] >= 0 for a in plan.axes) and len(arrays) <= MOST_INDICES


def _write(x: Any, plan: IndexPlan, arrays: Sequence[Any], value: Any, add: bool) -> Any:
    """x with the value written to, or added to, the plan's region."""
    _, result_order = orders(plan, arrays)
    axes = tuple(plan.origin[a] for a in plan.axes)
    middle = [d for i, d in enumerate(plan.middle) if i not in plan.axes]
    in_front = (*arrays[0].shape, *middle)
    value = _broadcast_value(value, tuple(in_front[i] for i in result_order))
    value = transpose(value, inverse_permutation(result_order))
    rest = (d for a, d in enumerate(plan.size) if a not in axes)
    value = reshape(value, (*arrays[0].shape, *rest))
    if not add and value.dtype.kind in "fc" and product(arrays[0].shape) != 1:
        varying = [k for k, a in enumerate(plan.arrays) if a.dtype.kind == "b" or a.size != 1]
        shape = tuple(x.shape[axes[k]] for k in varying)
        value = LastWrites.apply(value, *(lifted(arrays[k]) for k in varying), shape=shape)
    extents = tuple(x.shape[a] for a in axes)
    return Write.apply(x, value, *arrays, axes=axes, extents=extents, start=plan.start, step=plan.step, add=add)


def _write_masked(x: Any, plan: IndexPlan, value: Any, add: bool) -> Any:
    """x after a write where one traced mask is true, if the value is the same for all of its elements: as `where`, for
    which it does not matter how many there are. None for any other write."""
    mask = plan.arrays[0]
    if len(plan.arrays) > 1 or mask.dtype.kind != "b" or not (isinstance(mask, Tensor) and mask.is_traced):
        return None
    mask = ravel(mask)
    region = take_slice(x, plan.start, plan.size, plan.step)
    order, result_order = orders(plan, (mask,))
    taken = transpose(reshape(region, plan.middle), order)
    rest = taken.shape[1:]
    target = tuple((1, *rest)[i] for i in result_order)
    if value.ndim > len(target) or any(
        d != 1 for d, t in zip(value.shape[::-1], target[::-1], strict=False) if t.__class__ is int and t == 1
    ):
        return None
    value = transpose(broadcast_to(value, target), inverse_permutation(result_order))
    written = where(reshape(mask, (*mask.shape, *(1,) * len(rest))), np.add(taken, value) if add else value, taken)
    back = reshape(transpose(written, inverse_permutation(order)), plan.size)
    return back if region is x else SliceUpdate.apply(x, back, start=plan.start, step=plan.step)


def _broadcast_value(value: Any, target: tuple[DimLike, ...]) -> Any:
    """The value in the shape of what it is written to; as in NumPy, leading axes of size 1 too many are dropped."""
    extra = value.ndim - len(target)
    if extra > 0 and all(d == 1 for d in value.shape[:extra]):
        value = reshape(value, value.shape[extra:])
    return broadcast_to(value, target)


def _replace(x: Any, plan: IndexPlan, arrays: tuple[Any, ...], write: Any, value: Any) -> Any:
    """x with its region of the plan changed by `write(region with indexed axes first, index arrays, value)`."""
    region = take_slice(x, plan.start, plan.size, plan.step)
    order, result_order = orders(plan, arrays)
    taken = transpose(reshape(region, plan.middle), order)
    in_front = (*arrays[0].shape, *taken.shape[len(arrays) :])
    value = _broadcast_value(value, tuple(in_front[i] for i in result_order))
    written = write(taken, arrays, transpose(value, inverse_permutation(result_order)))
    back = reshape(transpose(written, inverse_permutation(order)), plan.size)
    if region is x:
        return back
    return SliceUpdate.apply(x, back, start=plan.start, step=plan.step)


def _write_rows(taken: Any, arrays: tuple[Any, ...], value: Any) -> Any:
    if arrays[0].size == 0:
        return taken
    indexed, rest = taken.shape[: len(arrays)], taken.shape[len(arrays) :]
    source = WriteSource.apply(*map(lifted, arrays), shape=indexed)
    rows = Gather.apply(reshape(value, (product(arrays[0].shape), *rest)), source)
    written = reshape(np.greater_equal(source, 0), (*indexed, *(1,) * len(rest)))
    return where(written, rows, taken)


def _add_rows(taken: Any, arrays: tuple[Any, ...], value: Any) -> Any:
    return np.add(taken, ScatterAdd.apply(value, *arrays, shape=taken.shape))
