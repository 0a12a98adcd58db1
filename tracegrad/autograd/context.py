"""What a built-in operation's `backward` sees where it is itself recorded: saved values with their history."""

from __future__ import annotations

from typing import Any

from tracegrad.autograd.node import AccumulateGrad, Edge, Packed, detached
from tracegrad.autograd.operation_node import OperationNode
from tracegrad.ir.types import Type
from tracegrad.state import state
from tracegrad.tensor import Tensor


class LinkedContext:
    """The ctx of a built-in operation's `backward` that is itself recorded: what was saved, linked to the node's edges
    so that it can be differentiated once more. Where nothing is recorded, as arrays."""

    def __init__(self, node: OperationNode):
        self._node = node
        self.attrs, self.needs_input_grad = node.attrs, node.needs_input_grad
        self._arrays = not state.grad_enabled and state.trace is None

    @property
    def types(self) -> tuple[Type, ...]:
        return self._node.types

    @property
    def inputs(self) -> tuple[Any, ...]:
        node = self._node
        plan = node.plan
        if not node.saved:
            return node.inputs or plan.nothing
        return plan.placed([self._value(x, node._edges[i]) for i, x in zip(plan.positions, node.saved, strict=True)])

    @property
    def output(self) -> Any:
        node = self._node
        return self._value(node.output_tensor(), (node, 0) if node._outs[0][1].kind in "fc" else None)

    def _value(self, x: Any, edge: Edge | None) -> Any:
        if type(x) is Packed:
            x = x.unpack()
        if self._arrays:
            return x._array if isinstance(x, Tensor) and x._array is not None else x
        return linked(x, edge) if state.grad_enabled and edge is not None else x


def linked(tensor: Tensor, edge: Edge) -> Tensor:
    """The Tensor with that edge: itself where it has it, else another one for the same value."""
    node, position = edge
    if not isinstance(tensor, Tensor):
        return tensor
    if type(node) is AccumulateGrad:
        return tensor if tensor._grad_fn is None and tensor._requires_grad else node.variable
    if tensor._grad_fn is node and tensor._output_nr == position:
        return tensor
    out = detached(tensor)
    out._requires_grad, out._grad_fn, out._output_nr = True, node, position
    return out
