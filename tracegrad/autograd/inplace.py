"""In-place modification of eager Tensors: what may be modified, and how the history is rewritten.

While a function is traced, `trace/memory.py` takes over.

The new value is computed by the ordinary operation and copied into the memory; the version counter rises; the history
of the Tensor becomes that of the new value. A view passes the change on to its base, whose history gets a
`CopySlices` node; the view (and every other view of that base) derives its own history from there when next asked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.autograd.forward_ad import copy_tangents
from tracegrad.autograd.inplace_tangents import refuse_arguments, tangents_before, write_tangents
from tracegrad.autograd.node import BackwardNode, detached, edge_of
from tracegrad.autograd.operation_node import OperationNode
from tracegrad.autograd.overwritten import note_kept, rescue
from tracegrad.autograd.views import immutable_number, move_retained, replayed
from tracegrad.errors import ArgumentError, AutogradError, DTypeError, ShapeError, TracegradIndexError
from tracegrad.state import state
from tracegrad.tensor import Tensor


class CopySlices(BackwardNode):
    """A part of a Tensor was overwritten: `region` says which, for arrays and for Tensors alike."""

    __slots__ = ("region", "value_shape", "winners")

    def __init__(self, before: Tensor, value: Any, region: Callable[[Any], Any], winners: Any = None):
        self._begin((edge_of(before), value if isinstance(value, tuple) else edge_of(value)))
        self._outs = ((before.shape, before.dtype),)
        self.region, self.winners = region, winners

    def _run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        (g,) = cotangents
        if g is None:
            return None, None
        kept = cut = None
        if self._edges[0] is not None:
            mask = np.ones(g.shape, bool)
            overwrite(mask, self.region, False)
            kept = np.where(mask, g, np.zeros((), g.dtype))
        if self._edges[1] is not None:
            cut = self.region(g)
            if self.winners is not None:
                cut = np.where(self.winners, cut, np.zeros((), g.dtype))
            shape = self._edges[1][0]._outs[self._edges[1][1]][0]
            while cut.ndim < len(shape):  # NumPy drops leading axes of size 1 of an assigned value
                cut = cut[None]
        return kept, cut


def overwrite(array: np.ndarray, region: Callable[[Any], Any], value: Any) -> None:
    """Set the region of an array to `value`."""
    assign = getattr(region, "assign", None)
    if assign is not None:
        assign(array, value)
    else:
        region(array)[...] = value


class IndexRegion:
    """The elements at an index."""

    def __init__(self, index: Any):
        self.index = index

    def __call__(self, x: Any) -> Any:
        return x[self.index]

    def assign(self, array: np.ndarray, value: Any) -> None:
        array[self.index] = value


class ViewRegion:
    """The elements that a view of a base sees."""

    def __init__(self, replay: Any):
        self.replay = replay

    def __call__(self, x: Any) -> Any:
        if isinstance(x, Tensor):
            return replayed(x, self.replay)
        for op, attrs, position in self.replay:
            x = op.forward(x, **attrs)
            x = x if position is None else x[position]
        return x


class Overwrite(BackwardNode):
    """All of a Tensor was overwritten: nothing flows to the old value, everything to the new one."""

    __slots__ = ()

    def __init__(self, before: Tensor, value: Any):
        self._begin((edge_of(before), edge_of(value)))
        self._outs = ((before.shape, before.dtype),)

    def _run(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        (g,) = cotangents
        if g is None:
            return None, None
        return Tensor._wrap(np.zeros(g.shape, g.dtype)) if self._edges[0] is not None else None, g


_overwrites: dict[str, type[Overwrite]] = {}


def overwrite_node(name: str) -> type[Overwrite]:
    """The class of the nodes of an overwriting method: CopyBackwards, FillBackward0, ZeroBackward0, …"""
    if name not in _overwrites:
        _overwrites[name] = type(name, (Overwrite,), {"__slots__": ()})
    return _overwrites[name]


# ---- what may be modified --------------------------------------------------------------------------------------------


def check_inplace(x: Tensor) -> None:
    """Raise AutogradError unless the eager Tensor `x` may be modified in place."""
    array = x._array
    if array is None:
        raise ArgumentError(
            "a Tensor of a traced function is modified after that function had returned",
            fix="return it from the function instead of keeping it in a global, a list or an attribute",
        )
    if state.dual is not None:
        refuse_arguments(x)
    if x._meta is not None and x._meta.view_reason == "number":
        raise immutable_number()
    if state.grad_enabled:
        _check_history(x)
    if x._meta is not None and x._meta.inference and not state.inference:
        raise AutogradError(
            "Inplace update to inference tensor outside InferenceMode is not allowed",
            fix="modify a copy: x.clone()",
        )
    if not array.flags.writeable:
        raise AutogradError(
            "this Tensor's memory is read-only (it was broadcast, or made from a read-only array), "
            "so it cannot be modified in place: more than one element may refer to a single memory location",
            fix="modify a copy: x.clone()",
        )


def _check_history(x: Tensor) -> None:
    meta = x._meta
    base = None if meta is None else meta.base
    if x._requires_grad and x._grad_fn is None and base is None:
        raise AutogradError(
            "a leaf Variable that requires grad is being used in an in-place operation",
            fix="do it under `with tg.no_grad():`, or on a copy (`x = x.clone()`), or on `x.data`",
        )
    if base is None:
        return
    if meta.view_reason == "multi" and x.requires_grad:
        raise AutogradError(
            "this Tensor is a view and is being modified inplace, but it is one of several outputs of "
            f"{x._grad_fn.name() if x._grad_fn else 'an operation'}, which returns multiple views",
            fix="modify a copy: x.clone()",
        )
    if meta.view_reason == "no_grad" and (base.requires_grad or x._requires_grad):
        raise AutogradError(
            "a view was created in no_grad mode and is being modified inplace with grad mode enabled",
            fix="make the view outside no_grad, or modify it inside no_grad, or modify a copy: x.clone()",
        )
    if meta.view_reason == "custom" and x._requires_grad:
        raise AutogradError(
            "this Tensor is a view that a user's Function returned and is being modified inplace, which would leave "
            "that Function's backward out",
            fix="return a clone from forward, or modify a copy: x.clone()",
        )
    if base._requires_grad and base._grad_fn is None:
        raise AutogradError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation",
            fix="do it under `with tg.no_grad():`, or on a copy of the leaf (`x = x.clone()`)",
        )


# ---- modifying -------------------------------------------------------------------------------------------------------


def apply_inplace(x: Tensor, compute: Callable[[Tensor], Any], what: str) -> Tensor:
    """Replace the value of `x` by `compute(x)`, in its memory and in its history; `x` itself comes back."""
    if state.trace is not None:
        return state.trace.memory.apply(x, compute, what)
    check_inplace(x)
    if state.dual is not None:
        return _apply_with_tangents(x, compute, what)
    if not state.grad_enabled:
        _store(x, compute(x), what)
        return x
    old = _snapshot(x)
    held = old._array
    result = compute(old)
    if not isinstance(result, Tensor):
        result = Tensor._wrap(np.asarray(result))
    node = result._grad_fn
    if node is not None and (sys.getrefcount(old) > 2 or sys.getrefcount(held) > 4):
        # Backward reads the old value, or a view of it, so it must survive; computing again is the price.
        old = _snapshot(x)
        old._array = old._array.copy()
        result = compute(old)
        node = result._grad_fn
    _store(x, result, what)
    if node is not None:
        if result.dtype != x.dtype:
            result, node = _in_dtype_of(x, result)
        elif isinstance(node, OperationNode) and node.output is not None:
            # The saved output is this memory now, and modifying it again has to be noticed.
            node.output, node.counter = x._array, (x._ensure_meta().version, x._version)
            if state.keepers is not None:
                note_kept(node, (x,))
        rebase_history(x, node, result._output_nr)
    return x


def _in_dtype_of(x: Tensor, result: Tensor) -> tuple[Tensor, BackwardNode]:
    from tracegrad.ops.casting import astype

    result = astype(result, x.dtype)
    return result, result._grad_fn


def _apply_with_tangents(x: Tensor, compute: Callable[[Tensor], Any], what: str) -> Tensor:
    """`apply_inplace` in forward mode: what the tangents were computed from is a copy, which outer levels may read."""
    old = _snapshot(x)
    copy_tangents(x, old)
    old._array = old._array.copy()  # type: ignore[union-attr]
    result = compute(old)
    tangents = tangents_before(x, result)
    _store(x, result, what)
    node = result._grad_fn if isinstance(result, Tensor) and state.grad_enabled else None
    if node is not None:
        result, node = _in_dtype_of(x, result)
        rebase_history(x, node, result._output_nr)
    write_tangents(x, tangents)
    return x


def _snapshot(x: Tensor) -> Tensor:
    """A Tensor with the history and the memory of `x` that stays what it is when `x` changes."""
    out = Tensor._wrap(x._array)
    if x.requires_grad:
        out._requires_grad, out._grad_fn, out._output_nr = True, x._grad_fn, x._output_nr
    return out


def _store(x: Tensor, result: Any, what: str) -> None:
    array = result._array if isinstance(result, Tensor) else np.asarray(result)
    if array.shape != x.shape:
        raise ShapeError(
            f"{what}: the output with shape {tuple(x.shape)} doesn't match the broadcast shape {tuple(array.shape)}",
            fix="write it as a new value instead: y = x + other",
        )
    if not np.can_cast(array.dtype, x.dtype, "same_kind"):
        raise DTypeError(
            f"{what}: the result type {array.dtype} can't be cast to the Tensor's {x.dtype}",
            fix=f"write it as a new value, or convert x first: x.astype({str(array.dtype)!r})",
        )
    rescue(x)
    np.copyto(x._array, array, casting="same_kind")
    bump(x)


def bump(x: Tensor) -> None:
    """Count one modification of the memory of `x`."""
    x._ensure_meta().version[0] += 1


def replace_value(x: Tensor, value: Any, what: str, name: str) -> Tensor:
    """Overwrite all of `x`; the gradient flows to `value` alone, summed where it was broadcast."""
    if state.trace is not None:
        return state.trace.memory.replace(x, value, what, overwrite_node(name))
    check_inplace(x)
    tangents = tangents_before(x, value) if state.dual is not None else None
    array = value._array if isinstance(value, Tensor) else np.asarray(value)
    record = state.grad_enabled and (x.requires_grad or (isinstance(value, Tensor) and value.requires_grad))
    node = overwrite_node(name)(x, value) if record and x.dtype.kind in "fc" else None
    rescue(x)
    try:
        np.copyto(x._array, array, casting="unsafe")
    except ValueError as error:
        raise ShapeError(f"{what}: a value of shape {array.shape} cannot be broadcast to {tuple(x.shape)}") from error
    bump(x)
    if node is not None:
        rebase_history(x, node, 0)
    if tangents is not None:
        write_tangents(x, tangents)
    return x


def rebase_history(x: Tensor, node: BackwardNode, position: int) -> None:
    """Make `node` what computed `x`; for a view, pass the change on to its base."""
    meta = x._ensure_meta()
    base = meta.base
    former, former_position = x._grad_fn, x._output_nr
    if base is None:
        x._requires_grad, x._grad_fn, x._output_nr = True, node, position
        move_retained(x, former, former_position)
        return
    if meta.retains_grad and former is not None and former._hooks is not None:
        former._hooks.retain.pop(former_position, None)  # the view's new node has it, once that is there
    former, former_position = base._grad_fn, base._output_nr
    change = CopySlices(base, (node, position), ViewRegion(meta.replay))
    base._requires_grad, base._grad_fn, base._output_nr = True, change, 0
    move_retained(base, former, former_position)
    meta.view_version = -1


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """`x[index] = value` with gradients to both; of several writes to one element the last one alone has one."""
    if state.trace is not None:
        from tracegrad.ops.index_writes import record_write

        if not record_write(x, index, value):
            state.trace.memory.apply(x, IndexedWrite(index, value), "x[...] = v")
        return
    check_inplace(x)
    tangents = tangents_before(x, value) if state.dual is not None else None
    index = plain_index(index)
    array = value._array if isinstance(value, Tensor) else np.asarray(_fitting(value, x))
    tracked = isinstance(value, Tensor) and value.requires_grad
    record = state.grad_enabled and (x.requires_grad or tracked) and x.dtype.kind in "fc"
    node = None
    try:
        if record:
            winners = _winners(x._array, index) if tracked else None
            before = detached(value) if isinstance(value, Tensor) and not tracked else value
            node = CopySlices(x, before, IndexRegion(index), winners)
        rescue(x)
        x._array[index] = array
    except IndexError as error:
        raise TracegradIndexError(f"x[...] = v: {error}", fix=f"the shape of x is {tuple(x.shape)}") from error
    except ValueError as error:
        raise ShapeError(f"x[...] = v: {error}", fix="give a value that broadcasts to the shape of x[...]") from error
    bump(x)
    if node is not None:
        rebase_history(x, node, 0)
    if tangents is not None:
        write_tangents(x, tangents, index)


def _fitting(value: Any, x: Tensor) -> Any:
    from tracegrad.ops.casting import fitting

    return fitting(value, x.dtype)


class IndexedWrite:
    """`x` after `x[index] = value`, for traced Tensors."""

    def __init__(self, index: Any, value: Any):
        self.index, self.value = index, value

    def __call__(self, x: Tensor) -> Tensor:
        from tracegrad.ops.index_writes import index_update

        return index_update(x, self.index, self.value)


def plain_index(index: Any) -> Any:
    """The index with ndarrays in place of Tensors. Copies, since backward uses it again."""
    if isinstance(index, tuple):
        return tuple(map(plain_index, index))
    if isinstance(index, Tensor):
        return index._array.copy()
    if isinstance(index, (list, np.ndarray)):
        return np.array(index)
    return index


def _winners(array: np.ndarray, index: Any) -> np.ndarray | None:
    """Where an index names elements more than once: which of the writes is the last. None where each is single."""
    parts = index if isinstance(index, tuple) else (index,)
    if not any(isinstance(p, np.ndarray) and p.dtype.kind in "iu" and p.size > 1 for p in parts):
        return None
    positions = np.full(array.shape, -1, np.int64)
    numbers = np.arange(array[index].size).reshape(array[index].shape)
    positions[index] = numbers
    found = positions[index] == numbers
    return None if found.all() else found


def augmented(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The method behind `x += y` and its kin: in place, but for what is an immutable number in NumPy's code."""

    def method(self: Tensor, other: Any) -> Any:
        if self.ndim == 0 and (self._array is None or state.numbers):
            return function(self, other)
        return apply_inplace(self, lambda old: function(old, _own(self, old, other)), f"x {name} y")

    return method


def _own(x: Tensor, old: Tensor, other: Any) -> Any:
    """The operand; where it is the modified Tensor itself, its old value."""
    return old if other is x else other
