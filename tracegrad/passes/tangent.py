"""Forward mode: the graph that also pushes tangents forward, from each operation's one `backward`.

The derivative of an operation is linear in the cotangent, and the transpose of a linear map's transpose is the map
itself: pulling the tangents back through the node's own pullback, with respect to a cotangent that stands for nothing,
gives the tangents of its outputs. No operation needs a second rule, and of the first pullback only what the second
reads stays. (Also for complex values, where cotangents follow the real scalar product Re⟨a, b⟩: taking the adjoint
twice is the identity there too.) Users' Functions may have a rule of their own, `jvp`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracegrad.errors import ArgumentError, AutogradError, BackwardNotImplementedError
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.types import Type
from tracegrad.ops.arithmetic import Add
from tracegrad.ops.constant import Constant
from tracegrad.ops.cotangent import zeros
from tracegrad.passes.adjoint import accumulate, constants_met, pullback
from tracegrad.state import setting
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace

Tangents = dict[Var, Tensor]


def push_forward(graph: Graph, wrt: Sequence[int]) -> tuple[Graph, tuple[bool, ...]]:
    """The graph that also computes tangents.

    `wrt` are positions of inputs. The result has one more input per `wrt`, its tangent, and one more output per inexact
    output of the graph, in order, its tangent. Second: per such output, whether it depends on a `wrt`.
    """
    trace = Trace(graph.name)
    trace.inputs.extend(graph.inputs)
    tangents: Tangents = {}
    scratch: set[int] = set()
    with setting(trace=trace, grad_enabled=True):
        for position in wrt:
            var = graph.inputs[position]
            given = trace.add_input(Type(var.type.dtype, var.type.shape), "tangent")
            former = tangents.get(var)
            tangents[var] = given if former is None else Add.apply(former, given)
        for node in graph.nodes:
            trace._record(node)
            if node.op.differentiable and any(v in tangents for v in node.inputs):
                for out, tangent in zip(node.outputs, _tangents_of(trace, node, tangents, scratch), strict=True):
                    if tangent is not None and out.type.inexact:
                        tangents[out] = tangent
        found = [tangents.get(v) for v in graph.outputs if v.type.inexact]
        types = [v.type for v in graph.outputs if v.type.inexact]
        results = [trace.lift(zeros(t) if g is None else g) for g, t in zip(found, types, strict=True)]
    outputs = (*graph.outputs, *results)
    nodes = _without_scratch((*constants_met(trace), *trace.nodes), outputs, scratch, set(trace.inputs))
    return Graph(tuple(trace.inputs), nodes, outputs, graph.name), tuple(g is not None for g in found)


def _tangents_of(trace: Trace, node: Node, tangents: Tangents, scratch: set[int]) -> Sequence[Tensor | None]:
    """Per output of the node its tangent, None for zero."""
    rule = getattr(node.op, "forward_symbolic", None)
    trace.location = node.location
    try:
        if rule is not None:
            inputs = tuple(Tensor._traced(trace, v) for v in node.inputs)
            outputs = tuple(Tensor._traced(trace, v) for v in node.outputs)
            given: Sequence[Tensor | None] | None = rule(node, inputs, outputs, tuple(map(tangents.get, node.inputs)))
            if given is not None:
                return given
        return transposed_twice(trace, node, tangents, scratch)
    finally:
        trace.location = None


def transposed_twice(trace: Trace, node: Node, tangents: Tangents, scratch: set[int]) -> list[Tensor | None]:
    """The tangents of the node's outputs by its pullback, pulled back with respect to the cotangents.

    `scratch` gains the ids of the nodes of the first pullback, of which most are dead.
    """
    dummies = {out: Var(Type(out.type.dtype, out.type.shape), "dummy") for out in node.outputs if out.type.inexact}
    given = dict.fromkeys(v for v in node.inputs if v in tangents)
    start = len(trace.nodes)
    cotangents = {out: Tensor._traced(trace, dummy) for out, dummy in dummies.items()}
    try:
        pullback(trace, (node,), cotangents, set(given))
        pulled = tuple(trace.nodes[start:])
        scratch.update(map(id, pulled))
        second: Tangents = {}
        for var in given:
            g = cotangents.get(var)
            if g is not None:
                accumulate(second, trace.lift(g), tangents[var])
        pullback(trace, pulled, second, set(dummies.values()))
    except AutogradError as error:
        raise no_jvp(node) from error
    return [second.get(dummies[out]) if out in dummies else None for out in node.outputs]


def no_jvp(node: Node) -> BackwardNotImplementedError:
    record = node.attrs.get("record") or node.attrs.get("function")
    function = getattr(record, "function", node.op)
    return BackwardNotImplementedError(
        "You must implement the jvp function for custom autograd.Function to use it with forward mode AD: "
        f"{getattr(function, '__name__', node.name)} has none, and its backward cannot be differentiated in turn",
        fix="write a static method jvp(ctx, *grad_inputs) that returns one tangent per output",
        location=node.location,
    )


def _without_scratch(
    nodes: Sequence[Node], outputs: Sequence[Var], scratch: set[int], inputs: set[Var]
) -> tuple[Node, ...]:
    """The nodes without the dead ones of first pullbacks, calls into Python too; dummies that stay are zeros."""
    live = set(outputs)
    kept: list[Node] = []
    defined = set(inputs)
    for node in reversed(nodes):
        if id(node) not in scratch or any(v in live for v in node.outputs):
            kept.append(node)
            live.update(node.inputs)
            defined.update(node.outputs)
    kept.reverse()
    dummies = [v for v in dict.fromkeys(v for node in kept for v in node.inputs) if v not in defined]
    return (*map(_zeros_node, dummies), *kept)


def _zeros_node(dummy: Var) -> Node:
    if not all(isinstance(d, int) for d in dummy.type.shape):
        raise ArgumentError(
            "a backward that is not linear in its grad_output, with symbolic sizes, has no forward mode",
            fix="write a static method jvp(ctx, *grad_inputs)",
        )
    return Node(Constant, (), (dummy,), {"value": np.zeros(dummy.type.shape, dummy.type.dtype), "weak": False})
