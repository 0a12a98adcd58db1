"""Applications of user Functions in a graph: `call`, whose body is the trace of its forward, and its adjoint."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tracegrad.autograd.engine import expandable
from tracegrad.autograd.node import as_tensor
from tracegrad.autograd.user_node import FunctionContext, backward_of, check_kind, checked_gradients
from tracegrad.errors import AutogradError, LeavesFunctionBody
from tracegrad.function import Operation
from tracegrad.ir.graph import Node, no_attrs
from tracegrad.ir.identity import attr_key, attrs_key
from tracegrad.ir.interpret import NO_SIZES, interpret
from tracegrad.ir.types import Type
from tracegrad.records import record
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor


@record
class Ref:
    """Input (or output) number `position` of the node, in place of a Tensor that forward had kept."""

    output: bool
    position: int


@record(eq=False)
class CallRecord:
    """What a `call` node knows of the Function besides its body.

    arguments:  per argument of forward the node's input it is, None for what is no Tensor.
    outputs:    per value forward returned the node's output it is, None for what is no Tensor.
    saved:      what save_for_backward was given; attributes: those of ctx; both with Refs in place of Tensors.
    static:     the arguments that are no Tensors, None in the places of those; kwargs: keyword-only arguments.
    for_forward: what save_for_forward was given, where the Function has a jvp.
    """

    function: Any
    arguments: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    saved: tuple[Any, ...]
    attributes: Mapping[str, Any]
    materialize: bool
    static: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=no_attrs)
    for_forward: tuple[Any, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallRecord) and (self is other or self._key == other._key)

    def __hash__(self) -> int:
        return hash((self.function, self.arguments, self.outputs))

    @property
    def _key(self) -> Hashable:
        parts = (self.arguments, self.outputs, self.saved, self.materialize, self.static, self.for_forward)
        return self.function, attr_key(parts), attrs_key(self.attributes), attrs_key(self.kwargs)

    @property
    def tensor_inputs(self) -> tuple[bool, ...]:
        return tuple(p is not None for p in self.arguments)

    @property
    def name(self) -> str:
        return f"{self.function.__name__}Backward"

    def __repr__(self) -> str:
        return f"<{self.function.__name__}>"


class RebuiltContext(FunctionContext):
    """The ctx of a backward that runs on other values than the ones forward saw."""

    def __init__(self, record: CallRecord, find: Callable[[Ref], Any], needs: tuple[bool, ...], saved: Any = None):
        self._begin_context(needs)
        self._name = record.name
        self._saved = tuple(map_refs(s, find) for s in (record.saved if saved is None else saved))
        for name, value in record.attributes.items():
            setattr(self, name, map_refs(value, find))

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self._saved

    def name(self) -> str:
        return self._name


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with `change` applied to what lists, tuples and dicts in it hold."""
    if isinstance(value, dict):
        return type(value)((k, map_leaves(v, change)) for k, v in value.items()) if type(value) is dict else value
    if isinstance(value, (list, tuple)):
        items = [map_leaves(v, change) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return change(value)


def map_refs(value: Any, find: Callable[[Ref], Any]) -> Any:
    """`value` with each Ref replaced by what it refers to."""
    return map_leaves(value, lambda v: find(v) if isinstance(v, Ref) else v)


def replaced(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """`value` with `change` of each leaf of this type; itself, not a copy, where there are none."""
    found = False

    def leaf(v: Any) -> Any:
        nonlocal found
        if not isinstance(v, kind):
            return v
        found = True
        return change(v)

    changed = map_leaves(value, leaf)
    return changed if found else value


class Call(Operation):
    """A user's Function applied to values. The body computes forward; further outputs are what backward reads."""

    name = "call"

    @staticmethod
    def infer(*types: Type, record: CallRecord) -> Type:
        raise AutogradError("the types of a call are those of its body")

    @staticmethod
    def check_bodies(node: Node) -> Any:
        """Faults of the node: its types must be the body's."""
        (body,) = node.bodies
        for what, mine, theirs in (("inputs", node.inputs, body.inputs), ("outputs", node.outputs, body.outputs)):
            if [v.type for v in mine] != [v.type for v in theirs]:
                yield f"the body's {what} have other types than the node's"

    @staticmethod
    def run_bodies(node: Node, inputs: Sequence[Any], sizes: Mapping[str, int] = NO_SIZES) -> tuple[Any, ...]:
        return interpret(node.bodies[0], inputs, sizes)

    @staticmethod
    def backward_symbolic(
        node: Node,
        inputs: tuple[Tensor, ...],
        outputs: tuple[Tensor, ...],
        needs: tuple[bool, ...],
        cotangents: tuple[Tensor | None, ...],
    ) -> tuple[Any, ...]:
        """Cotangents of the inputs: by the user's backward, and through the body for the values it had kept."""
        record: CallRecord = node.attrs["record"]
        n_outputs = sum(p is not None for p in record.outputs)
        grads: list[Any] = [None] * len(inputs)
        if any(g is not None for g in cotangents[:n_outputs]):
            found = _backward_of_call(record, inputs, outputs, needs, cotangents)
            for position, g in zip(record.arguments, found, strict=True):
                if position is not None and g is not None:
                    grads[position] = g
        if any(g is not None for g in cotangents[n_outputs:]):
            through = pull_through_body(node, inputs, needs, cotangents, n_outputs)
            grads = [b if a is None else a if b is None else a + b for a, b in zip(grads, through, strict=True)]
        return tuple(grads)

    @staticmethod
    def forward_symbolic(node: Node, inputs: Any, outputs: Any, tangents: Any) -> Any:
        from tracegrad.ops.function_rules import tangents_of_call

        return tangents_of_call(node.attrs["record"], node, inputs, outputs, tangents)

    @staticmethod
    def batch_symbolic(node: Node, tensors: Any, flags: tuple[bool, ...], size: Any) -> Any:
        from tracegrad.ops.function_rules import batched_function

        return batched_function(node.attrs["record"], node, tensors, flags, size)


def _backward_of_call(
    record: CallRecord, inputs: Any, outputs: Any, needs: tuple[bool, ...], cotangents: Sequence[Tensor | None]
) -> tuple[Any, ...]:
    """The user's backward, recorded; as a call into Python where it leaves tracegrad or reads arrays from outside.

    An adjoint is derived once, so an array of a closure or a global could not be read afresh by each call; arrays that
    backward makes itself are constants.
    """
    trace = state.trace
    assert trace is not None
    start, known, frozen = len(trace.nodes), set(trace.captured), trace.memory.frozen
    n_frozen = len(frozen)
    try:
        found = user_backward(record, inputs, outputs, needs, cotangents)
        if _settle_captured(trace, start, known) and len(frozen) == n_frozen:
            if not any(t is not None and t.requires_grad for t in (*inputs, *outputs, *cotangents)):
                trace.roll_from(start, [g._var for g in found if g is not None and g._array is None])
            return found
    except LeavesFunctionBody:
        pass
    _roll_back(trace, start, known)
    from tracegrad.ops.host_call import host_backward_of_call

    return host_backward_of_call(record, inputs, outputs, needs, cotangents)


def _settle_captured(trace: Any, start: int, known: set[Any]) -> bool:
    """Make constants of the arrays that only the trace holds; whether nothing else was captured since `known`."""
    from tracegrad.ops.constant import Constant
    from tracegrad.trace.tracer import _is_ours_alone

    constants = []
    new = [v for v in trace.captured if v not in known]
    trace.settle(new)
    for var in new:
        value = trace.captured.pop(var)
        if not isinstance(value, np.ndarray) or not _is_ours_alone(value):
            trace.captured[var] = value
            return False
        trace.values.pop(var, None)
        trace.contents.pop(var, None)
        trace._capture_of.pop(id(value), None)
        node = Node(Constant, (), (var,), {"value": np.ascontiguousarray(value, var.type.dtype), "weak": False})
        trace.definitions[var] = node
        constants.append(node)
    if constants:
        trace.nodes[start:start] = constants
        trace.columns = None
    return True


def _roll_back(trace: Any, start: int, known: set[Any]) -> None:
    """Forget what was recorded and captured since."""
    for node in trace.nodes[start:]:
        for out in node.outputs:
            trace.definitions.pop(out, None)
    del trace.nodes[start:]
    trace.columns = None
    for var in [v for v in trace.captured if v not in known]:
        trace._capture_of.pop(id(trace.captured.pop(var)), None)
        trace.contents.pop(var, None)
    trace._constants = {k: v for k, v in trace._constants.items() if v in trace.definitions}


def user_backward(
    record: CallRecord, inputs: Any, outputs: Any, needs: tuple[bool, ...], cotangents: Sequence[Tensor | None]
) -> tuple[Any, ...]:
    """Run the user's backward on symbolic values; one cotangent per argument of forward."""
    n_outputs = sum(p is not None for p in record.outputs)

    def find(ref: Ref) -> Tensor:
        value = outputs[ref.position] if ref.output else inputs[ref.position]
        varies = ref.position < n_outputs if ref.output else needs[ref.position]
        if value._requires_grad or not (varies and value.type.inexact):
            return value
        out = Tensor._traced(value._trace, value._var)  # as it was to forward, where its history is not known here
        out._requires_grad = True
        return out

    wanted = tuple(p is not None and needs[p] for p in record.arguments)
    context = RebuiltContext(record, find, wanted)
    received = tuple(
        None if p is None else received_cotangent(cotangents[p], outputs[p].type, record.materialize)
        for p in record.outputs
    )
    with setting(function_body=True):
        result = backward_of(record.function)(context, *received)
    found = checked_gradients(record.name, result, record.tensor_inputs, [True if w else None for w in wanted])
    for i, (g, position) in enumerate(zip(found, record.arguments, strict=True)):
        if g is not None and position is not None:
            check_shape(record.name, i, g.shape, inputs[position].shape)
            check_kind(record.name, i, g.dtype, inputs[position].dtype)
    return found


def received_cotangent(g: Any, out: Type, materialize: bool) -> Any:
    """What backward is given for an output: zeros where nothing arrived, if they are asked for."""
    if g is not None or not materialize:
        return g
    from tracegrad.ops.cotangent import zeros

    return as_tensor_or_traced(zeros(out))


def as_tensor_or_traced(value: Any) -> Tensor:
    """A value that user code may treat as a Tensor."""
    trace = state.trace
    if isinstance(value, Tensor) or trace is None:
        return as_tensor(value)
    return Tensor._traced(trace, trace.lift(np.asarray(value)))


def check_shape(name: str, position: int, found: Any, expected: Any) -> None:
    if found != expected and not expandable(expected, found):
        raise AutogradError(
            f"Function {name} returned an invalid gradient at index {position} - "
            f"got {list(found)} but expected shape compatible with {list(expected)}",
            fix="return a gradient of the input's shape (a larger one that broadcasting would give is summed)",
        )


def pull_through_body(
    node: Node, inputs: Any, needs: tuple[bool, ...], cotangents: Sequence[Tensor | None], first: int
) -> list[Any]:
    """Cotangents of residual outputs, pulled back through the body by the ordinary adjoint."""
    from tracegrad.passes.adjoint import accumulate, pullback
    from tracegrad.trace.tracer import splice

    trace = state.trace
    assert trace is not None
    start = len(trace.nodes)
    results = splice(trace, node.bodies[0], tuple(x._var for x in inputs))
    nodes = tuple(trace.nodes[start:])
    found: dict[Any, Tensor] = {}
    for var, g in zip(results[first:], cotangents[first:], strict=True):
        if g is not None:
            accumulate(found, var, g)
    pullback(trace, nodes, found, {x._var for x, needed in zip(inputs, needs, strict=True) if needed})
    grads: list[Any] = []
    seen = set()
    for x, needed in zip(inputs, needs, strict=True):
        grads.append(found.get(x._var) if needed and x._var not in seen else None)
        seen.add(x._var)
    return grads
