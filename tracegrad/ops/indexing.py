"""Indexing: `x[index]` in all of NumPy's forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ShapeError, SymbolicValueError, TracegradIndexError
from tracegrad.function import Operation
from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import NO_ATTRS
from tracegrad.ir.identity import attrs_equal
from tracegrad.ir.sizes import LEAST, active
from tracegrad.ops.base import broadcast_shapes, shape_text
from tracegrad.ops.gather import Gather, Nonzero
from tracegrad.ops.index_plan import IndexPlan, plan_index
from tracegrad.ops.operands import guarded_int, lifted, operand
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.shape import (
    Reshape,
    broadcast_to,
    reshape,
    transpose,
)
from tracegrad.ops.slicing import Slice, Unslice, take_slice
from tracegrad.ops.writes import MOST_INDICES
from tracegrad.state import state
from tracegrad.tensor import Tensor


def getitem(x: Any, index: Any) -> Any:
    """`x[index]`. Raises TracegradIndexError (an IndexError) where NumPy raises IndexError."""
    if isinstance(x, Tensor):
        if x._array is None:
            found = _recorded_region(x, index)
            if found is not None:
                return found
        elif is_basic(index):
            return _read(BasicIndex.apply(x, index=index), x, index)
    return _read(composed_getitem(x, index), x, index)


def _read(part: Any, x: Any, index: Any) -> Any:
    """What was read; an element is a number to functions of ndarrays, which keeps its value when x is written to."""
    if not state.numbers or part.__class__ is not Tensor or part.ndim or part is x or part._meta is None:
        return part
    if index is not Ellipsis and not (index.__class__ is tuple and any(i is Ellipsis for i in index)):
        meta = part._meta
        if state.dual is not None:
            _keep_tangents(part)
        meta.version, meta.base, meta.replay, meta.view_reason = [meta.version[0]], None, (), "number"
        if part._array is not None:
            part._array = part._array.copy()
    return part


def _keep_tangents(part: Any) -> None:
    """Let a view carry the tangents that it has through its base."""
    from tracegrad.autograd.forward_ad import levels, tangent_of

    for level in levels():
        tangent_of(part, level)


def _recorded_region(x: Tensor, index: Any) -> Tensor | None:
    """`x[index]` of a traced x, recorded at once, for the most frequent indices: ints and slices within known axes."""
    trace = state.trace
    return None if trace is None or x._trace is not trace else trace.region(x, index, region_of)


def region_of(shape: tuple[DimLike, ...], index: Any) -> tuple[Any, Any, Any, Any] | None:
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
    order, result_order = orders(plan, arrays := index_arrays(plan))
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
        from tracegrad.ops.index_writes import index_update

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
        from tracegrad.ops.index_writes import index_update

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
    return broadcast_indices([true_positions(a) if a.dtype.kind == "b" else a for a in plan.arrays])


def broadcast_indices(arrays: Sequence[Any]) -> tuple[Any, ...]:
    try:
        common = broadcast_shapes(*(a.shape for a in arrays))
    except ShapeError:
        shapes = " ".join(shape_text(a.shape) for a in arrays)
        raise TracegradIndexError(
            f"the index arrays could not be broadcast together, their shapes are {shapes}",
            fix="for all combinations of rows and columns use np.ix_",
        ) from None
    return tuple(a if a.shape == common else broadcast_to(lifted(a), common) for a in arrays)


def orders(plan: IndexPlan, arrays: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
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
