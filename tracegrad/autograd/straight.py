"""The eager road of operations, straightened: most of a small operation's cost.

What happens is what `Operation.apply` and `OperationNode` do, written out so that a small operation costs a few
microseconds less; traces and modes that are rarely on take the general road. Arrays and numbers, which is what a
derivative is computed from, go to NumPy at once. Each operation gets code of its own (see `own_code`): one function
for elementwise operations with one operand, one for those with two, one for a single operand with attributes, one for
any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import CO_VARARGS
from typing import Any

import numpy as np
from numpy import ndarray

from tracegrad.autograd.modes import modes
from tracegrad.autograd.node import _sequence, edge_of, type_of
from tracegrad.autograd.operation_node import Plan, own_code, versions_of
from tracegrad.autograd.views import note_view
from tracegrad.ir.types import Type, known_type
from tracegrad.state import aside, state
from tracegrad.tensor import Tensor, plain_array

Compute = Callable[..., Any]

new, wrap = object.__new__, Tensor._wrap
_NO_ATTRS: dict[str, Any] = {}


def straight_apply(cls: Any, general: Compute) -> Compute:
    """An `apply` for this operation, which hands to `general` what is traced or meets a rare mode."""
    code = cls.forward.__code__
    single = code.co_argcount - hasattr(cls.forward, "__self__") == 1 and not code.co_flags & CO_VARARGS
    return _named(cls, (_single if single else _several)(cls, cls.forward, general))


def straight_elementwise(cls: Any, compute: Compute, general: Compute) -> Compute:
    """The same for an elementwise operation, whose operands are all it takes."""
    count = cls.ufunc.nin
    if count > 2 or not cls.differentiable:
        return _named(cls, _several(cls, compute, general))
    return _named(cls, (_unary if count == 1 else _binary)(cls, compute, general))


def _named(cls: Any, apply: Any) -> Compute:
    apply.__qualname__ = f"{cls.__name__}.apply"
    return own_code(apply)


def _unary(cls: Any, compute: Compute, general: Compute) -> Compute:
    plan = cls.node_class.plan_for((True,))
    recorded, saves, nothing = _recorder(cls, plan), bool(plan.positions), plan.nothing

    def apply(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return compute(x)
        array = x._array
        if array is None or modes.special:
            return general(x)
        if aside:
            if not state.unrecorded:
                return general(x)
            result = compute(array)
            return wrap(result if type(result) is ndarray else plain_array(result))
        result = compute(array)
        if type(result) is not ndarray:
            result = plain_array(result)
        node, outs = x._grad_fn, None
        if x._meta is not None or node is None:
            edge = edge_of(x)
            if edge is None:
                return wrap(result)
        else:
            edge = node, x._output_nr
            if result.dtype is array.dtype:
                outs = node._outs
        if saves:
            return recorded(result, (edge,), (x,), (array,), (array,), outs, x._meta is not None)
        return recorded(result, (edge,), (), nothing, (array,), outs, False)

    return apply


def _binary(cls: Any, compute: Compute, general: Compute) -> Compute:
    plan = cls.node_class.plan_for((True, False))
    recorded, reads_left, reads_right = _recorder(cls, plan), 0 in plan.positions, 1 in plan.positions
    with_another = _with_another(cls, compute, general)

    def apply(a: Any, b: Any) -> Any:
        if isinstance(b, Tensor) or not isinstance(a, Tensor):
            return with_another(a, b)
        array = a._array
        if array is None or modes.special:
            return general(a, b)
        if aside:
            if not state.unrecorded:
                return general(a, b)
            result = compute(array, b)
            return wrap(result if type(result) is ndarray else plain_array(result))
        result = compute(array, b)
        if type(result) is not ndarray:
            result = plain_array(result)
        node, outs = a._grad_fn, None
        if a._meta is not None or node is None:
            edge = edge_of(a)
            if edge is None:
                return wrap(result)
        else:
            edge = node, a._output_nr
            if type(b) is float and result.dtype is array.dtype:
                outs = node._outs
        saved = ((a, b) if reads_right else (a,)) if reads_left else ()
        inputs = array if reads_left else None, b if reads_right else None
        return recorded(result, (edge, None), saved, inputs, (array, b), outs, a._meta is not None)

    return apply


def _with_another(cls: Any, compute: Compute, general: Compute) -> Compute:
    """The same where the second operand is a Tensor, or none is."""
    roads = {}
    for needs in ((True, False), (False, True), (True, True)):
        plan = cls.node_class.plan_for(needs)
        roads[needs] = _recorder(cls, plan), 0 in plan.positions, 1 in plan.positions

    def apply(a: Any, b: Any) -> Any:
        if not isinstance(b, Tensor):
            return compute(a, b)
        left = isinstance(a, Tensor)
        x, y = a._array if left else a, b._array
        if x is None or y is None or modes.special:
            return general(a, b)
        if aside:
            if not state.unrecorded:
                return general(a, b)
            result = compute(x, y)
            return wrap(result if type(result) is ndarray else plain_array(result))
        result = compute(x, y)
        if type(result) is not ndarray:
            result = plain_array(result)
        edge_a, edge_b = edge_of(a) if left else None, edge_of(b)
        if edge_a is None and edge_b is None:
            return wrap(result)
        recorded, reads_left, reads_right = roads[edge_a is not None, edge_b is not None]
        if reads_right:
            saved = (a, b) if reads_left else (b,)
        else:
            saved = (a,) if reads_left and left else ()
        inputs = x if reads_left else None, y if reads_right else None
        counted = b._meta is not None or (left and a._meta is not None)
        return recorded(result, (edge_a, edge_b), saved, inputs, (x, y), None, counted)

    return own_code(apply)


def _single(cls: Any, compute: Compute, general: Compute) -> Compute:
    """Of one operand with attributes; the result may be a view, or several."""
    differentiable = cls.differentiable
    road: Any = None

    def apply(x: Any, **attrs: Any) -> Any:
        nonlocal road
        if not isinstance(x, Tensor):
            return compute(x, **attrs)
        array = x._array
        if array is None or modes.special:
            return general(x, **attrs)
        recording = differentiable
        if aside:
            if not state.unrecorded:
                return general(x, **attrs)
            recording = False
        result = compute(array, **attrs)
        if type(result) is not ndarray:
            if type(result) is tuple:
                return cls.finish((x,), (array,), attrs, result, recording)
            result = plain_array(result)
        edge = edge_of(x) if recording else None
        if edge is None:
            out = wrap(result)
        else:
            recorded, saves, nothing = road = road or _road_of_one(cls)
            if saves:
                out = recorded(result, (edge,), (x,), (array,), (array,), None, x._meta is not None, attrs)
            else:
                out = recorded(result, (edge,), (), nothing, (array,), None, False, attrs)
        if result.base is not None or result is array:
            note_view(cls, (x,), attrs, out)
        return out

    return apply


def _road_of_one(cls: Any) -> tuple[Compute, bool, Any]:
    plan = cls.node_class.plan_for((True,))
    return _recorder(cls, plan), bool(plan.positions), plan.nothing


def _several(cls: Any, compute: Compute, general: Compute) -> Compute:
    """Of any number of operands, with attributes or without; the result may be a view, or several."""
    differentiable = cls.differentiable
    roads: dict[tuple[bool, ...], Any] = {}

    def apply(*operands: Any, **attrs: Any) -> Any:
        for x in operands:
            if isinstance(x, Tensor):
                break
        else:
            return compute(*operands, **attrs)
        recording = differentiable
        if aside or modes.special:
            if modes.special or not state.unrecorded:
                return general(*operands, **attrs)
            recording = False
        arrays, edges, needed, counted = [], [], False, False
        for x in operands:
            edge = None
            if isinstance(x, Tensor):
                if recording:
                    edge = edge_of(x)
                    needed = needed or edge is not None
                    counted = counted or x._meta is not None
                x = x._array
                if x is None:
                    return general(*operands, **attrs)
            arrays.append(x)
            edges.append(edge)
        result = compute(*arrays, **attrs)
        if type(result) is not ndarray:
            if type(result) is tuple:
                return cls.finish(operands, arrays, attrs, result, recording)
            result = plain_array(result)
        if needed:
            needs = tuple([e is not None for e in edges])
            road = roads.get(needs)
            if road is None:
                plan = cls.node_class.plan_for(needs)
                road = roads[needs] = _recorder(cls, plan), plan.positions, plan.nothing
            recorded, positions, inputs = road
            saved: Any = ()
            if positions:
                saved = tuple([operands[i] for i in positions])
                inputs = tuple([x if i in positions else None for i, x in enumerate(arrays)])
            out = recorded(result, tuple(edges), saved, inputs, arrays, None, counted, attrs)
        else:
            out = wrap(result)
        if result.base is not None or id(result) in map(id, arrays):
            note_view(cls, operands, attrs, out)
        return out

    return apply


def _recorder(cls: Any, plan: Plan) -> Compute:
    """What makes a Tensor of a result and gives it its node.

    `outs` is the description of the operand's node where the result has the operand's type, so that the two nodes share
    it and the engine sees at once that a cotangent fits. `counted` says that an operand has a version counter, `arrays`
    are the operands as arrays and numbers.
    """
    node_class, keep_output = plan.node_class, plan.keep_output
    reads_types = "types" in cls.backward.__code__.co_names

    def recorded(
        array: ndarray, edges: Any, saved: Any, inputs: Any, arrays: Any, outs: Any, counted: bool,
        attrs: Mapping[str, Any] = _NO_ATTRS,
    ) -> Tensor:  # fmt: skip
        if outs is None or len(outs) != 1:
            dtype = array.dtype
            if dtype.kind not in "fc":
                return wrap(array)
            outs = ((array.shape, dtype),)
        node = node_class()
        node._sequence = next(_sequence)
        node._hooks = None
        node.attrs = attrs
        node._edges = edges
        node._outs = outs
        node.operands = tuple([_type(x) for x in arrays]) if reads_types else None
        node.saved = saved
        node.inputs = inputs
        node.versions = versions_of(saved) if counted else None
        node.output = array if keep_output else None
        node.counter = None
        out = new(Tensor)
        out._array = array
        out._output_nr = 0
        out._meta = None
        out._requires_grad = True
        out._grad_fn = node
        return out

    return own_code(recorded)


def _type(x: Any) -> Type:
    """The type of an array or a Python number."""
    return known_type(x.dtype, x.shape) if isinstance(x, (ndarray, np.generic)) else type_of(type(x)(0))
