"""The eager road of elementwise operations with one or two operands, straightened: most of a small operation's cost.

What happens is what `Operation.apply` and `OperationNode` do, written out so that a small operation costs a few
microseconds less; traces and modes that are rarely on take the general road. Arrays and numbers, which is what a
derivative is computed from, go to NumPy at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from tracegrad.autograd.modes import modes
from tracegrad.autograd.node import _sequence, edge_of
from tracegrad.autograd.operation_node import Plan, own_code, versions_of
from tracegrad.state import aside, state
from tracegrad.tensor import Tensor, plain_array

Compute = Callable[..., Any]

new, wrap = object.__new__, Tensor._wrap
_NO_ATTRS: dict[str, Any] = {}


def straight_apply(cls: Any, compute: Compute, general: Compute) -> Compute | None:
    """An `apply` for this elementwise operation; None if it has more than two operands."""
    count = cls.ufunc.nin
    if count > 2:
        return None
    general = _unrecorded(cls.differentiable, compute, general)
    if not cls.differentiable:
        return general
    apply = _unary(cls, compute, general) if count == 1 else _binary(cls, compute, general)
    apply.__qualname__ = f"{cls.__name__}.apply"
    return own_code(apply)


def _unrecorded(differentiable: bool, compute: Compute, general: Compute) -> Compute:
    """The general road, and short ones from arrays and to a Tensor without history."""

    def apply(*operands: Any) -> Any:
        arrays, tensors = [], False
        for x in operands:
            if isinstance(x, Tensor):
                x, tensors = x._array, True
                if x is None:
                    return general(*operands)
            arrays.append(x)
        if not tensors:
            return compute(*operands)
        if modes.special or (aside and state.trace is not None) or (differentiable and state.grad_enabled):
            return general(*operands)
        result = compute(*arrays)
        return wrap(result if type(result) is ndarray else plain_array(result))

    return apply


def _unary(cls: Any, compute: Compute, general: Compute) -> Compute:
    plan = cls.node_class.plan_for((True,))
    recorded, saves, nothing = _recorder(cls, plan), bool(plan.positions), plan.nothing

    def apply(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return compute(x)
        array = x._array
        if array is None or aside or modes.special:
            return general(x)
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
            return recorded(result, (edge,), (x,), (array,), (x,), outs, x._meta is not None)
        return recorded(result, (edge,), (), nothing, (x,), outs, False)

    return apply


def _binary(cls: Any, compute: Compute, general: Compute) -> Compute:
    plan = cls.node_class.plan_for((True, False))
    recorded, reads_left, reads_right = _recorder(cls, plan), 0 in plan.positions, 1 in plan.positions
    with_another = _with_another(cls, compute, general)

    def apply(a: Any, b: Any) -> Any:
        if isinstance(b, Tensor) or not isinstance(a, Tensor):
            return with_another(a, b)
        array = a._array
        if array is None or aside or modes.special:
            return general(a, b)
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
        return recorded(result, (edge, None), saved, inputs, (a, b), outs, a._meta is not None)

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
        if x is None or y is None or aside or modes.special:
            return general(a, b)
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
        return recorded(result, (edge_a, edge_b), saved, inputs, (a, b), None, counted)

    return own_code(apply)


def _recorder(cls: Any, plan: Plan) -> Compute:
    """What makes a Tensor of a result and gives it its node.

    `outs` is the description of the operand's node where the result has the operand's type, so that the two nodes share
    it and the engine sees at once that a cotangent fits. `counted` says that an operand has a version counter.
    """
    node_class, keep_output = plan.node_class, plan.keep_output
    reads_types = "types" in cls.backward.__code__.co_names

    def recorded(
        array: ndarray, edges: Any, saved: Any, inputs: Any, operands: Any, outs: Any, counted: bool
    ) -> Tensor:
        if outs is None or len(outs) != 1:
            dtype = array.dtype
            if dtype.kind not in "fc":
                return wrap(array)
            outs = ((array.shape, dtype),)
        node = node_class()
        node._sequence = next(_sequence)
        node._hooks = None
        node.attrs = _NO_ATTRS
        node._edges = edges
        node._outs = outs
        node.operands = tuple(map(_operand, operands)) if reads_types else None
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


def _operand(x: Any) -> Any:
    """Shape and dtype of an operand; the class of a Python number."""
    if isinstance(x, Tensor):
        x = x._array
    return (x.shape, x.dtype) if isinstance(x, (np.ndarray, np.generic)) else type(x)
