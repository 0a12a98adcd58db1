"""What programs are full of, recorded at once: parts of arrays that are read and written, numbers that are stacked.

What these operations give for operands of the same types in the same line is found out once and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracegrad.errors import user_location
from tracegrad.ir.dims import Dim
from tracegrad.ir.graph import NO_ATTRS, Location, Node, Var
from tracegrad.ir.sizes import active
from tracegrad.ir.types import Type, known_type
from tracegrad.ops.joining import Concatenate
from tracegrad.ops.shape import Reshape
from tracegrad.ops.slicing import Slice, SliceUpdate
from tracegrad.state import state
from tracegrad.tensor import Meta, Tensor
from tracegrad.trace.columns import Columns

if TYPE_CHECKING:
    from tracegrad.trace.memory import Memory

_new = tuple.__new__  # of Nodes, without their own
_new_object = object.__new__
MOST_PLANS = 4096  # of operations, kept
FEW = 8  # elements from either end of an array, which are read again and again


def met(type: Type) -> Type:
    """The same object for equal types; sizes of the call at hand and NumPy integers must not be compared for that."""
    plain = active.sizes is None and all(d.__class__ in (int, Dim) for d in type.shape)
    return known_type(type.dtype, type.shape, type.weak) if plain else type


class RegionPlan:
    """What recording the reading or writing of a part of values of one type in one line takes: the types of the values
    of this type, of the size of the part and of the shape it is seen in (None: the same), and `attrs`, the attributes
    of slices by where they begin."""

    __slots__ = ("attrs", "kept", "kinds", "reshaped", "seen", "taken", "whole")

    def __init__(self, trace: Frequent, type: Type, size: Any, step: Any, shape: Any, location: Any, writes: bool):
        self.kept = type, location  # so that their ids are theirs
        self.whole = met(type.with_shape(type.shape))
        self.taken = met(type.with_shape(size))
        self.seen = None if shape == size else met(type.with_shape(shape))
        self.reshaped = {"shape": size if writes else shape}
        self.attrs: dict[Any, Mapping[str, Any]] = {}
        columns, ops = trace.columns, ((SliceUpdate, 2) if writes else (Slice, 1), (Reshape, 1))
        self.kinds = [None if columns is None else columns.kind(op, location, n, 1, True) for op, n in ops]


class StackPlan:
    """What stacking so many values of one type in one line takes: types and attributes of the rows and the whole."""

    __slots__ = ("axis", "kept", "kinds", "reshaped", "row", "whole")

    def __init__(self, trace: Frequent, type: Type, count: int, axis: int, location: Any):
        self.kept = type, location  # so that their ids are theirs
        self.reshaped = {"shape": (*type.shape[:axis], 1, *type.shape[axis:])}
        self.axis = {"axis": axis}
        self.row = met(Reshape.infer(type, **self.reshaped))
        self.whole = met(Concatenate.infer(*(self.row,) * count, **self.axis))
        columns, ops = trace.columns, ((Reshape, 1), (Concatenate, count))
        self.kinds = [None if columns is None else columns.kind(op, location, n, 1, True) for op, n in ops]


class Frequent:
    """The part of a trace that records them; every method says None or False where more is to be done."""

    nodes: list[Node]
    definitions: dict[Var, Node]
    columns: Columns | None
    location: Location | None
    memory: Memory
    _at_once: dict[tuple[Any, ...], Any]

    def _put(
        self, op: Any, inputs: tuple[Var, ...], type: Type, attrs: Mapping[str, Any], location: Any, kind: int | None
    ) -> Tensor:
        """Record a node with one result."""
        return self._tensor(self._node(op, inputs, type, attrs, location, kind))

    def _tensor(self, var: Var) -> Tensor:
        out = _new_object(Tensor)
        out._array = out._grad_fn = out._meta = None
        out._requires_grad = False
        out._output_nr = 0
        out._trace, out._var = self, var
        return out

    def _node(
        self, op: Any, inputs: tuple[Var, ...], type: Type, attrs: Mapping[str, Any], location: Any, kind: int | None
    ) -> Var:
        """The same, and its value alone: most of what recording costs, so written out."""
        var = _new_object(Var)
        var.type, var.name = type, ""
        node = _new(Node, (op, inputs, (var,), attrs, (), location))
        self.nodes.append(node)
        self.definitions[var] = node
        columns = self.columns
        if columns is None:
            var.number = -1
        else:
            if kind is None:
                kind = columns.kind(op, location, len(inputs), 1, attrs is not NO_ATTRS)
            columns.kinds.append(kind)
            read = columns.reads.append
            for v in inputs:
                read(v.number)
            var.number = number = columns.count
            columns.count = number + 1
            if attrs is not NO_ATTRS:
                columns.attrs.append(id(attrs))
        return var

    def region(self, x: Tensor, index: Any, find: Callable[[Any, Any], tuple[Any, ...] | None]) -> Tensor | None:
        """Record `x[index]`, the slice of a value of this trace and its reshape, as one view of it. `find` gives
        (start, size, step, shape of the result) for x's shape and an index of the most frequent kinds.

        None where more than that is to be done: histories, values of other traces, sizes of the call at hand.
        """
        meta = x._meta
        if meta is None:
            meta = x._ensure_meta()
        elif meta.base is not None and meta.view_version != meta.version[0]:
            return None
        if x._requires_grad or x._trace is not self or active.sizes is not None or not state.grad_enabled:
            return None
        location = self.location or user_location(4)
        var = x._var
        key = (id(location), id(var.type), index) if index.__class__ is int and -FEW <= index < FEW else None
        known = None if key is None else self._at_once.get(key)
        if known is None:
            found = find(var.type.shape, index)
            if found is None:
                return None
            start, size, step, shape = found
            plan = self._region_plan(var.type, size, step, shape, location, False)
            if plan is None:
                return None
            attrs = plan.attrs.get(start)
            if attrs is None:
                attrs = plan.attrs[start] = {"start": start, "size": size, "step": step}
            if key is not None:
                self._at_once[key] = plan, attrs
        else:
            plan, attrs = known
        part = self._node(Slice, (var,), plan.taken, attrs, location, plan.kinds[0])
        if plan.seen is None:
            replay = (*meta.replay, (Slice, attrs, None))
        else:
            part = self._node(Reshape, (part,), plan.seen, plan.reshaped, location, plan.kinds[1])
            if state.numbers and not plan.seen.shape:
                out = self._tensor(part)
                out._meta = Meta([0], view_reason="number")
                return out
            replay = (*meta.replay, (Slice, attrs, None), (Reshape, plan.reshaped, None))
        out = self._tensor(part)
        base = x if meta.base is None else meta.base
        out._meta = Meta(meta.version, base, replay, meta.version[0], meta.view_reason)
        return out

    def write_region(self, x: Tensor, value: Tensor, start: Any, size: Any, step: Any, shape: Any) -> bool:
        """Record the write of a value of that shape, and of x's dtype, to a part of a value of this trace. False where
        more than that is to be done: histories, views, what stands for arrays from outside, sizes of the call at hand.
        """
        meta = x._meta
        if meta is None:
            meta = x._ensure_meta()
        given = value._meta
        if (
            x._requires_grad or x._trace is not self or meta.base is not None or id(x) in self.memory.by_standin
            or value._requires_grad or value._trace is not self
            or (given is not None and given.base is not None and given.view_version != given.version[0])
            or active.sizes is not None or not state.grad_enabled
        ):  # fmt: skip
            return False
        location = self.location or user_location(4)
        var, new = x._var, value._var
        plan = self._region_plan(var.type, size, step, shape, location, True)
        if plan is None:
            return False
        attrs = plan.attrs.get(start)
        if attrs is None:
            attrs = plan.attrs[start] = {"start": start, "step": step}
        if plan.seen is not None:
            new = self._node(Reshape, (new,), plan.taken, plan.reshaped, location, plan.kinds[1])
        x._var = self._node(SliceUpdate, (var, new), plan.whole, attrs, location, plan.kinds[0])
        meta.version[0] += 1
        meta.view_version = meta.version[0]
        return True

    def _region_plan(
        self, type: Type, size: Any, step: Any, shape: Any, location: Any, writes: bool
    ) -> RegionPlan | None:
        key = id(location), id(type), size, step, shape, writes
        plan = self._at_once.get(key)
        if plan is None and len(self._at_once) < MOST_PLANS:
            plan = self._at_once[key] = RegionPlan(self, type, size, step, shape, location, writes)
        return plan  # type: ignore[no-any-return]

    def stack(self, parts: Sequence[Any], axis: int) -> Tensor | None:
        """Record the values of one type of this trace along a new axis, if no history is to be kept."""
        type = parts[0]._var.type if parts[0].__class__ is Tensor and parts[0]._array is None else None
        for p in parts:
            if (
                p.__class__ is not Tensor or p._array is not None or p._trace is not self or p._requires_grad
                or p._var.type is not type
                or ((meta := p._meta) is not None and meta.base is not None and meta.view_version != meta.version[0])
            ):  # fmt: skip
                return None
        if active.sizes is not None or not state.grad_enabled:
            return None
        location = self.location or user_location(4)
        key = id(location), id(type), len(parts), axis
        plan = self._at_once.get(key)
        if plan is None:
            if len(self._at_once) >= MOST_PLANS:
                return None
            plan = self._at_once[key] = StackPlan(self, type, len(parts), axis, location)  # type: ignore[arg-type]
        row, reshaped, kinds = plan.row, plan.reshaped, plan.kinds
        rows = tuple([self._node(Reshape, (p._var,), row, reshaped, location, kinds[0]) for p in parts])
        return self._put(Concatenate, rows, plan.whole, plan.axis, location, kinds[1])
