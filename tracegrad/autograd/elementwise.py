"""The eager road of elementwise operations with one or two operands, straightened: most of a small operation's cost.

What happens is what `Operation.apply` and `OperationNode` do, written out so that a small operation costs a few
microseconds less; traces, modes that are rarely on, and operands that are no Tensors take the general road.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.autograd.modes import modes
from tracegrad.autograd.node import _sequence, detached, edge_of
from tracegrad.state import state
from tracegrad.tensor import Tensor, plain_array

_new = object.__new__
_NO_ATTRS: dict[str, Any] = {}
_ZEROS: tuple[tuple[int, ...], ...] = ((), (0,), (0, 0), (0, 0, 0))


def straight_apply(cls: Any, compute: Callable[..., Any], general: Callable[..., Any]) -> Callable[..., Any] | None:
    """An `apply` for this elementwise operation; None if it has more than two operands."""
    if cls.ufunc.nin == 1:
        return _unary(cls, compute, general)
    return _binary(cls, compute, general) if cls.ufunc.nin == 2 else None


def _unary(cls: Any, compute: Callable[..., Any], general: Callable[..., Any]) -> Callable[..., Any]:
    node_class, differentiable = cls.node_class, cls.differentiable
    plan = node_class.plan_for((True,))
    saves_input, record = bool(plan.positions), _recorder(cls)

    def apply(x: Any) -> Any:
        if state.trace is not None or modes.special:
            return general(x)
        if not isinstance(x, Tensor):
            return compute(x)
        array = x._array
        if array is None:
            return general(x)
        result = compute(array)
        out = _new(Tensor)
        out._array = result if type(result) is np.ndarray else plain_array(result)
        out._output_nr = 0
        out._meta = None
        if differentiable and (x._requires_grad or x._meta is not None) and state.grad_enabled:
            edge = edge_of(x)
            if edge is not None:
                record(out, plan, (edge,), (x,) if saves_input else (), (x,))
                return out
        out._requires_grad = False
        out._grad_fn = None
        return out

    apply.__qualname__ = f"{cls.__name__}.apply"
    return apply


def _binary(cls: Any, compute: Callable[..., Any], general: Callable[..., Any]) -> Callable[..., Any]:
    node_class, differentiable = cls.node_class, cls.differentiable
    plan_left, plan_right, plan_both = map(node_class.plan_for, ((True, False), (False, True), (True, True)))
    record = _recorder(cls)

    def apply(a: Any, b: Any) -> Any:
        if state.trace is not None or modes.special:
            return general(a, b)
        recording = differentiable and state.grad_enabled
        edge_a = edge_b = None
        x, y = a, b
        if isinstance(a, Tensor):
            x = a._array
            if recording and (a._requires_grad or a._meta is not None):
                node = a._grad_fn
                edge_a = (node, a._output_nr) if node is not None and a._meta is None else edge_of(a)
            if isinstance(b, Tensor):
                y = b._array
                if recording and (b._requires_grad or b._meta is not None):
                    edge_b = edge_of(b)
        elif isinstance(b, Tensor):
            y = b._array
            if recording and (b._requires_grad or b._meta is not None):
                edge_b = edge_of(b)
        else:
            return compute(a, b)
        if x is None or y is None:
            return general(a, b)
        result = compute(x, y)
        out = _new(Tensor)
        out._array = result if type(result) is np.ndarray else plain_array(result)
        out._output_nr = 0
        out._meta = None
        if edge_a is None:
            if edge_b is None:
                out._requires_grad = False
                out._grad_fn = None
                return out
            plan = plan_right
        else:
            plan = plan_left if edge_b is None else plan_both
        positions = plan.positions
        if not positions:
            saved = ()
        elif len(positions) == 2:
            saved = (a, b)
        else:
            saved = (b,) if positions[0] else (a,)
        record(out, plan, (edge_a, edge_b), saved, (a, b))
        return out

    apply.__qualname__ = f"{cls.__name__}.apply"
    return apply


def _recorder(cls: Any) -> Callable[[Tensor, Any, Any, tuple[Any, ...], tuple[Any, ...]], None]:
    """What gives an output its node."""
    node_class, reads_types = cls.node_class, "types" in cls.backward.__code__.co_names

    def record(out: Tensor, plan: Any, edges: Any, saved: tuple[Any, ...], inputs: tuple[Any, ...]) -> None:
        array = out._array
        dtype = array.dtype
        if dtype.kind not in "fc":
            out._requires_grad, out._grad_fn = False, None
            return
        node = _new(node_class)
        node._sequence = next(_sequence)
        node._hooks = None
        node.attrs = _NO_ATTRS
        node._edges = edges
        node._outs = ((array.shape, dtype),)
        node.operands = tuple(map(_operand, inputs)) if reads_types else None
        node.plan = plan
        node.saved = saved
        versions = _ZEROS[len(saved)]
        for tensor in saved:
            if isinstance(tensor, Tensor) and tensor._meta is not None:
                versions = tuple([s._version if isinstance(s, Tensor) else 0 for s in saved])
                break
        if plan.keep_outputs:
            node.saved_outputs = (detached(out),)
            node.versions = (*versions, 0)
        else:
            node.saved_outputs = None
            node.versions = versions
        out._requires_grad = True
        out._grad_fn = node

    return record


def _operand(x: Any) -> Any:
    """Shape and dtype of an operand; the class of a Python number."""
    if isinstance(x, Tensor):
        x = x._array
    return (x.shape, x.dtype) if isinstance(x, (np.ndarray, np.generic)) else type(x)
