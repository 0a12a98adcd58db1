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
from tracegrad.autograd.node import Plan, _sequence, edge_of, versions_of
from tracegrad.state import state
from tracegrad.tensor import Tensor, plain_array

new, wrap = object.__new__, Tensor._wrap
_NO_ATTRS: dict[str, Any] = {}


def straight_apply(cls: Any, compute: Callable[..., Any], general: Callable[..., Any]) -> Callable[..., Any] | None:
    """An `apply` for this elementwise operation; None if it has more than two operands."""
    if cls.ufunc.nin == 1:
        return _unary(cls, compute, general)
    return _binary(cls, compute, general) if cls.ufunc.nin == 2 else None


def _unary(cls: Any, compute: Callable[..., Any], general: Callable[..., Any]) -> Callable[..., Any]:
    differentiable, recorded = cls.differentiable, _recorder(cls)
    plan = cls.node_class.plan_for((True,))
    saves_input = bool(plan.positions)

    def apply(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return compute(x)
        array = x._array
        if array is None or modes.special or state.trace is not None:
            return general(x)
        result = compute(array)
        if type(result) is not ndarray:
            result = plain_array(result)
        meta = x._meta
        if differentiable and (x._requires_grad or meta is not None) and state.grad_enabled:
            outs = edge = None
            node = x._grad_fn
            if meta is not None or node is None:
                edge = edge_of(x)
            else:
                edge = node, x._output_nr
                if result.dtype is array.dtype and len(node._outs) == 1:
                    outs = node._outs
            if edge is not None:
                saved, inputs = ((x,), (array,)) if saves_input else ((), plan.nothing)
                return recorded(result, plan, (edge,), saved, inputs, (x,), outs, meta is not None)
        return wrap(result)

    apply.__qualname__ = f"{cls.__name__}.apply"
    return apply


def _binary(cls: Any, compute: Callable[..., Any], general: Callable[..., Any]) -> Callable[..., Any]:
    differentiable, recorded = cls.differentiable, _recorder(cls)
    plan_left, plan_right, plan_both = map(cls.node_class.plan_for, ((True, False), (False, True), (True, True)))

    def apply(a: Any, b: Any) -> Any:
        x, y = a, b
        meta_a = meta_b = None
        tracked_a = tracked_b = False
        if isinstance(a, Tensor):
            x, meta_a = a._array, a._meta
            tracked_a = a._requires_grad or meta_a is not None
            if isinstance(b, Tensor):
                y, meta_b = b._array, b._meta
                tracked_b = b._requires_grad or meta_b is not None
        elif isinstance(b, Tensor):
            y, meta_b = b._array, b._meta
            tracked_b = b._requires_grad or meta_b is not None
        else:
            return compute(a, b)
        if x is None or y is None or modes.special or state.trace is not None:
            return general(a, b)
        result = compute(x, y)
        if type(result) is not ndarray:
            result = plain_array(result)
        if not differentiable or not (tracked_a or tracked_b) or not state.grad_enabled:
            return wrap(result)
        outs = edge_a = edge_b = None
        if tracked_a:
            node = a._grad_fn
            if meta_a is not None or node is None:
                edge_a = edge_of(a)
            else:
                edge_a = node, a._output_nr
                if type(b) is float and result.dtype is x.dtype and len(node._outs) == 1:
                    outs = node._outs
        if tracked_b:
            node = b._grad_fn
            edge_b = edge_of(b) if meta_b is not None or node is None else (node, b._output_nr)
        if edge_a is not None:
            plan = plan_left if edge_b is None else plan_both
        elif edge_b is not None:
            plan = plan_right
        else:
            return wrap(result)
        positions = plan.positions
        if not positions:
            saved, inputs = (), plan.nothing
        elif len(positions) == 2:
            saved, inputs = (a, b), (x, y)
        elif positions[0]:
            saved, inputs = () if y is b else (b,), (None, y)
        else:
            saved, inputs = () if x is a else (a,), (x, None)
        counted = meta_a is not None or meta_b is not None
        return recorded(result, plan, (edge_a, edge_b), saved, inputs, (a, b), outs, counted)

    apply.__qualname__ = f"{cls.__name__}.apply"
    return apply


def _recorder(cls: Any) -> Callable[..., Tensor]:
    """What makes a Tensor of a result and gives it its node.

    `outs` is the description of the operand's node where the result has the operand's type, so that the two nodes share
    it and the engine sees at once that a cotangent fits. `counted` says that an operand has a version counter.
    """
    node_class, reads_types = cls.node_class, "types" in cls.backward.__code__.co_names

    def recorded(
        array: np.ndarray, plan: Plan, edges: Any, saved: Any, inputs: Any, operands: Any, outs: Any, counted: bool
    ) -> Tensor:
        if outs is None:
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
        node.plan = plan
        node.needs_input_grad = plan.needs
        node.saved = saved
        node.inputs = inputs
        node.versions = versions_of(saved) if counted else None
        node.output = array if plan.keep_output else None
        node.counter = None
        out = new(Tensor)
        out._array = array
        out._output_nr = 0
        out._meta = None
        out._requires_grad = True
        out._grad_fn = node
        return out

    return recorded


def _operand(x: Any) -> Any:
    """Shape and dtype of an operand; the class of a Python number."""
    if isinstance(x, Tensor):
        x = x._array
    return (x.shape, x.dtype) if isinstance(x, (np.ndarray, np.generic)) else type(x)
