"""Indexing: `x[index]` in all of NumPy's forms, and what is built on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError, SymbolicValueError, TracegradIndexError
from tracegrad.function import Operation
from tracegrad.ir.dims import DimLike, product
from tracegrad.ir.graph import NO_ATTRS
from tracegrad.ir.identity import attrs_equal
from tracegrad.ir.sizes import LEAST, active
from tracegrad.numpy_protocols import implements
from tracegrad.ops.base import broadcast_shapes, normalize_axis, shape_text
from tracegrad.ops.casting import astype
from tracegrad.ops.creation import dimension
from tracegrad.ops.gather import Gather, Nonzero, ScatterAdd, WriteSource
from tracegrad.ops.index_plan import IndexPlan, plan_index
from tracegrad.ops.joining import stack
from tracegrad.ops.operands import guarded_int, lifted, operand, positions
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.select import where
from tracegrad.ops.shape import (
    Reshape,
    broadcast_arrays,
    broadcast_to,
    expand_dims,
    inverse_permutation,
    ravel,
    reshape,
    shape,
    squeeze,
    transpose,
)
from tracegrad.ops.slicing import Slice, SliceUpdate, Unslice, take_slice
from tracegrad.ops.writes import MOST_INDICES, LastWrites, Write
from tracegrad.state import state
from tracegrad.tensor import Tensor

# ---- reading ------------------------------------------------------------------------------------------------------


def getitem(x: Any, index: Any) -> Any:
    """`x[index]`. Raises TracegradIndexError (an IndexError) where NumPy raises IndexError."""
    if isinstance(x, Tensor):
        if x._array is None:
            found = _recorded_region(x, index)
            if found is not None:
                return found
        elif is_basic(index):
            return BasicIndex.apply(x, index=index)
    return composed_getitem(x, index)


def _recorded_region(x: Tensor, index: Any) -> Tensor | None:
    """`x[index]` of a traced x, recorded at once, for the most frequent indices: ints and slices within known axes."""
    trace = state.trace
    return None if trace is None or x._trace is not trace else trace.region(x, index, _region)


def _region(shape: tuple[DimLike, ...], index: Any) -> tuple[Any, Any, Any, Any] | None:
    """(start, size, step, shape of the result) of such an index; None for others and for all of the array."""
    items = index if index.__class__ is tuple else (index,)
    if not 0 < len(items) <= len(shape):
        return None
    start: list[int] = []
    size: list[DimLike] = []
    step: list[int] = []
    kept: list[DimLike] = []
    for item, dim in zip(items, shape, strict=False):
        if dim.__class__ is not int:
            return None
        if item.__class__ is int:
            if not -dim <= item < dim:
                return None
            start.append(item if item >= 0 else item + dim)
            size.append(1)
            step.append(1)
        elif item.__class__ is slice and item.step != 0 and is_basic(item):
            taken = range(*item.indices(dim))
            start.append(taken.start if taken else 0)
            size.append(len(taken))
            step.append(taken.step)
            kept.append(len(taken))
        else:
            return None
    if len(items) < len(shape):
        rest = shape[len(items) :]
        start += (0,) * len(rest)
        step += (1,) * len(rest)
        size += rest
        kept += rest
    whole = tuple(size)
    if whole == shape:
        return None
    return tuple(start), whole, tuple(step), tuple(kept)


def composed_getitem(x: Any, index: Any) -> Any:
    """`x[index]` as a trace records it."""
    x = operand(x)
    if isinstance(index, (Tensor, np.ndarray)) and index.ndim and x.ndim:
        if index.dtype.kind in "iu":
            return Gather.apply(x, index)
        few = index.ndim <= MOST_INDICES
        if few and index.dtype.kind == "b" and state.trace is None and index.shape == x.shape[: index.ndim]:
            return Gather.apply(x, *(index._array if isinstance(index, Tensor) else index).nonzero())
    place = _place(x.shape, index)
    if place is not None:
        rest = x.shape[len(place) :]
        ones, zeros = (1,) * len(place), (0,) * len(rest)
        start, size, step = (*place, *zeros), (*ones, *rest), (1,) * x.ndim
        trace = state.trace
        if trace is None or not isinstance(x, Tensor) or size == x.shape:
            return Reshape.apply(take_slice(x, start, size, step), shape=rest)
        taken = trace.apply(Slice, (x,), {"start": start, "size": size, "step": step})
        return trace.apply(Reshape, (taken,), {"shape": rest})
    plan = plan_index(x.shape, index)
    taken = reshape(take_slice(x, plan.start, plan.size, plan.step), plan.middle)
    if not plan.arrays:
        return taken
    order, result_order = _orders(plan, arrays := index_arrays(plan))
    result = transpose(Gather.apply(transpose(taken, order), *arrays), result_order)
    if result.ndim and state.trace is not None and isinstance(x, Tensor) and all(a.ndim == 0 for a in plan.arrays):
        state.trace.memory.note_view(_Row(index), state.trace.memory.own(x), NO_ATTRS, result)
    return result


class BasicIndex(Operation):
    """`x[index]` for an index that `is_basic`, of an array that is there: one view, which NumPy makes.

    It is in no graph and has no IR name: a trace records the Slice and the Reshape that it stands for.
    """

    saves = ("",)

    @staticmethod
    def forward(x: np.ndarray, *, index: Any) -> np.ndarray:
        try:
            part = x[index]
            return part if type(part) is np.ndarray else x[(*index, ...) if type(index) is tuple else (index, ...)]
        except (IndexError, ValueError):
            plan_index(x.shape, index)  # says what is wrong
            raise

    @classmethod
    def traced_apply(cls, trace: Any, args: tuple[Any, ...], attrs: Any) -> Any:
        return composed_getitem(args[0], attrs["index"])

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any]:
        shape, index = ctx.types[0].shape, ctx.attrs["index"]
        if type(g) is np.ndarray and state.trace is None:
            whole = np.zeros(shape, g.dtype)
            whole[index] = g
            return (whole,)
        plan = plan_index(shape, index)
        return (Unslice.apply(reshape(g, plan.size), shape=shape, start=plan.start, step=plan.step, fill=0),)

    @staticmethod
    def put(x: Any, view: Any, *, index: Any) -> Any:
        return index_update(x, index, view)


MOST_STEPS = 12  # in which two masks are found to be the same
_ITEMS = frozenset((int, type(None), type(Ellipsis)))
_BOUNDS = frozenset((int, type(None)))


def is_basic(index: Any) -> bool:
    """Whether an index consists of ints, slices between ints, None and Ellipsis."""
    for item in index if type(index) is tuple else (index,):
        if type(item) not in _ITEMS and (
            type(item) is not slice
            or type(item.start) not in _BOUNDS
            or type(item.stop) not in _BOUNDS
            or type(item.step) not in _BOUNDS
        ):
            return False
    return True


class _Row:
    """What `x[i]` does for a computed number i: as with an int in NumPy's code, the result is a view of x."""

    name = "row"

    def __init__(self, index: Any):
        self.index = index if type(index) is tuple else (index,)

    def apply(self, x: Any) -> Any:
        return getitem(x, self.index)

    def put(self, x: Any, view: Any) -> Any:
        return index_update(x, self.index, view)

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Some view that is made this way."""
        return x[tuple(0 if isinstance(i, Tensor) else i for i in self.index)]


def _place(shape: tuple[DimLike, ...], index: Any) -> tuple[int, ...] | None:
    """Where one element, or one row, of leading axes begins, for the most frequent index: integers within bounds."""
    items = index if type(index) is tuple else (index,)
    if not 0 < len(items) <= len(shape):
        return None
    place = []
    for item, dim in zip(items, shape, strict=False):
        if type(item) is not int or type(dim) is not int or not -dim <= item < dim:
            return None
        place.append(item if item >= 0 else item + dim)
    return tuple(place)


def index_arrays(plan: IndexPlan) -> tuple[Any, ...]:
    """The plan's arrays as integer arrays of one shape; masks become the positions of what is true in them."""
    return _broadcast_indices([true_positions(a) if a.dtype.kind == "b" else a for a in plan.arrays])


def _broadcast_indices(arrays: Sequence[Any]) -> tuple[Any, ...]:
    try:
        common = broadcast_shapes(*(a.shape for a in arrays))
    except ShapeError:
        shapes = " ".join(shape_text(a.shape) for a in arrays)
        raise TracegradIndexError(
            f"the index arrays could not be broadcast together, their shapes are {shapes}",
            fix="for all combinations of rows and columns use np.ix_",
        ) from None
    return tuple(a if a.shape == common else broadcast_to(lifted(a), common) for a in arrays)


def _orders(plan: IndexPlan, arrays: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The order of axes that brings the indexed ones to the front, and the one that sorts a gather's result."""
    rest = tuple(i for i in range(len(plan.middle)) if i not in plan.axes)
    count = arrays[0].ndim
    others = range(count, count + len(rest))
    return (*plan.axes, *rest), (*others[: plan.position], *range(count), *others[plan.position :])


def true_positions(mask: Any) -> Any:
    """The flat positions of the True elements. How many there are is guarded while tracing."""
    mask = lifted(mask)
    if state.trace is None:
        return (mask._array if isinstance(mask, Tensor) else mask).ravel().nonzero()[0]
    count: Any = tensor_sum(mask, dtype=np.dtype(np.intp))
    counted = active.sizes is not None and active.sizes.counts is not None
    try:
        if counted and (number := int(state.trace.value(state.trace.lift(count)))) >= LEAST:
            return _counted_positions(state.trace, mask, count, number)
        count = guarded_int(count)
    except SymbolicValueError as error:
        raise SymbolicValueError(
            "in a row of tg.vmap or in the body of a loop, nobody knows how many elements a mask selects",
            fix="keep all elements: np.where(mask, f(x), x) for x[mask] = f(x[mask]), and np.sum(x, where=mask) for "
            "np.sum(x[mask])",
        ) from error
    return Nonzero.apply(mask, count=count)


def _counted_positions(trace: Any, mask: Tensor, count: Tensor, number: int) -> Tensor:
    """`true_positions` whose number is a symbol, the same one for a mask that has been met."""
    for node in trace.nodes:
        if node.name == "nonzero" and _same_value(trace, node.inputs[0], mask._var):
            return Tensor._traced(trace, node.outputs[0])
    trace.guards.append((trace.lift(np.greater_equal(count, LEAST)), np.True_))
    return Nonzero.apply(mask, count=active.sizes.count(number))  # type: ignore[union-attr, no-any-return]


def _same_value(trace: Any, a: Any, b: Any, depth: int = 0) -> bool:
    """Whether two values of a trace are computed alike from the same values, in few steps."""
    if a is b or depth > MOST_STEPS:
        return a is b
    first, second = trace.definitions.get(a), trace.definitions.get(b)
    if first is None or second is None or first.op is not second.op or first.bodies or len(first.outputs) > 1:
        return False
    alike = len(first.inputs) == len(second.inputs) and attrs_equal(first.attrs, second.attrs)
    return alike and all(_same_value(trace, x, y, depth + 1) for x, y in zip(first.inputs, second.inputs, strict=True))


# ---- writing, as functions ----------------------------------------------------------------------------------------


def record_write(x: Tensor, index: Any, value: Any) -> bool:
    """Record `x[index] = value` at once, for the most frequent indices of what needs no care. False for others."""
    if x._array is not None or value.__class__ is not Tensor or value._array is not None:
        return False
    type, given = x._var.type, value._var.type
    if given.dtype != type.dtype or given.weak or type.weak:
        return False
    found = _region(type.shape, index)
    return found is not None and given.shape == found[3] and state.trace.write_region(x, value, *found)  # type: ignore[union-attr]


def index_update(x: Any, index: Any, value: Any) -> Any:
    """A copy of x after `x[index] = value`: `value` is broadcast and cast to x's dtype.

    Of several writes to one element the last one wins, and it alone gets the gradient.
    """
    x = operand(x)
    value = astype(operand(value), x.dtype)
    region = _region(x.shape, index)
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


def _writable(plan: IndexPlan, arrays: Sequence[Any]) -> bool:
    """Whether what the index names is one region: each array indexes one axis."""
    return all(plan.origin[a] >= 0 for a in plan.axes) and len(arrays) <= MOST_INDICES


def _write(x: Any, plan: IndexPlan, arrays: Sequence[Any], value: Any, add: bool) -> Any:
    """x with the value written to, or added to, the plan's region."""
    _, result_order = _orders(plan, arrays)
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
    order, result_order = _orders(plan, (mask,))
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
    order, result_order = _orders(plan, arrays)
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


# ---- NumPy's functions --------------------------------------------------------------------------------------------


@implements(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    """Elements of one axis (of all, flattened, without `axis`); `mode` is raise, wrap or clip."""
    _no_out(out, "take")
    x = ravel(a) if axis is None else operand(a)
    axis = 0 if axis is None else normalize_axis(axis, x.ndim)
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
    return _broadcast_indices(arrays)


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
