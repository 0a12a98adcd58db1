"""The adjoint of a graph, as a graph: each node's own `backward`, run on symbolic values in reverse order.

Only values on a path from a differentiated input to a seeded output take part (activity analysis); `backward` sees
which inputs those are in `ctx.needs_input_grad`. Differentiating the result again gives second order. The method is
reverse accumulation (Griewank & Walther, Evaluating Derivatives, ch. 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.types import Type
from tracegrad.ops.arithmetic import Add
from tracegrad.ops.constant import Constant
from tracegrad.ops.cotangent import fit, zeros
from tracegrad.records import record
from tracegrad.state import UNSTOPPED, setting
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace


@record
class SymbolicContext:
    """The `ctx` of a built-in operation's backward while the adjoint is derived: everything is there, as symbols."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attrs: Mapping[str, Any]
    types: tuple[Type, ...]
    needs_input_grad: tuple[bool, ...]

    @property
    def output(self) -> Tensor:
        return self.outputs[0]


def adjoint(graph: Graph, wrt: Sequence[int], seeds: Sequence[int]) -> tuple[Graph, tuple[bool, ...]]:
    """The graph that also pulls cotangents back.

    `wrt` are positions of inputs, `seeds` positions of outputs. The result has one more input per seed, its cotangent,
    and one more output per `wrt`, the cotangent of that input (zeros where the outputs do not depend on it). Second:
    per `wrt`, whether any output depends on it.
    """
    joint, _ = adjoint_and_arrivals(graph, wrt, seeds)
    reaching = values_reaching(graph, seeds)
    return joint, tuple(graph.inputs[i] in reaching for i in wrt)


def adjoint_and_arrivals(
    graph: Graph, wrt: Sequence[int], seeds: Sequence[int], create_graph: bool = False
) -> tuple[Graph, tuple[bool, ...]]:
    """The same graph, and per `wrt` whether a cotangent arrives there: not where users' backwards return None.

    `create_graph`: whether users' backwards see that gradients are recorded.
    """
    trace = Trace(graph.name)
    trace.inputs.extend(graph.inputs)
    for node in graph.nodes:
        trace._record(node)
    cotangents: dict[Var, Tensor] = {}
    zero: set[Var] = set()
    wanted = {graph.inputs[i] for i in wrt}
    with setting(trace=trace, grad_enabled=True):
        for position in seeds:
            out = graph.outputs[position]
            seed = trace.add_input(Type(out.type.dtype, out.type.shape), "seed")
            accumulate(cotangents, out, seed)
        pullback(trace, graph.nodes, cotangents, wanted, zero, create_graph)
        results = []
        for position in wrt:
            var = graph.inputs[position]
            found = cotangents.get(var)
            results.append(trace.lift(zeros(var.type) if found is None else found))
    outputs = (*graph.outputs, *results)
    arrives = tuple(graph.inputs[i] in cotangents or graph.inputs[i] in zero for i in wrt)
    primal = len(graph.nodes)
    nodes = (*trace.nodes[:primal], *constants_met(trace), *trace.nodes[primal:])
    return Graph(tuple(trace.inputs), nodes, outputs, graph.name), arrives


def constants_met(trace: Trace) -> list[Node]:
    """Constant nodes for the arrays that operations' derivatives brought along (a user's are host calls instead)."""
    nodes = []
    for var, value in trace.captured.items():
        array = np.array(value._value() if isinstance(value, Tensor) else value, dtype=var.type.dtype, order="C")
        nodes.append(Node(Constant, (), (var,), {"value": array, "weak": False}))
    return nodes


def values_reaching(graph: Graph, seeds: Sequence[int]) -> set[Var]:
    """The values that a seeded output depends on differentiably, be the derivative zero (as that of a floor) or not."""
    reaching = {graph.outputs[i] for i in seeds}
    for node in reversed(graph.nodes):
        if node.op.differentiable and any(out in reaching for out in node.outputs):
            reaching.update(v for v in node.inputs if v.type.inexact)
    return reaching


def pullback(
    trace: Trace,
    nodes: Sequence[Node],
    cotangents: dict[Var, Tensor],
    wanted: set[Var],
    zero: set[Var] | None = None,
    create_graph: bool = False,
) -> dict[Var, Tensor]:
    """Run the adjoints of `nodes` backwards under the active trace, which has them recorded.

    `cotangents` holds those of the results and gains one for each active value; `wanted` are the values to reach.
    `zero` gains the values whose cotangent is zero because built-in operations say so (a floor, say).
    """
    with setting(grad_enabled=create_graph or UNSTOPPED):
        _pull(trace, nodes, cotangents, wanted, zero)
    return cotangents


def _pull(
    trace: Trace, nodes: Sequence[Node], cotangents: dict[Var, Tensor], wanted: set[Var], zero: set[Var] | None
) -> None:
    active = active_values(nodes, wanted)
    for node in reversed(nodes):
        needs = tuple(v in active for v in node.inputs)
        if not any(needs) or not node.op.differentiable:
            continue
        if not any(out in cotangents for out in node.outputs):
            if zero is not None and any(out in zero for out in node.outputs):
                zero.update(v for v, needed in zip(node.inputs, needs, strict=True) if needed)
            continue
        incoming = tuple(map(cotangents.get, node.outputs))
        trace.location = node.location
        for var, needed, g in zip(node.inputs, needs, _backward(trace, node, needs, incoming), strict=True):
            if needed and g is not None:
                accumulate(cotangents, var, g)
            elif needed and zero is not None and not hasattr(node.op, "backward_symbolic"):
                zero.add(var)
    trace.location = None


def accumulate(cotangents: dict[Var, Tensor], var: Var, g: Any) -> None:
    """Add a cotangent of `var` to what is there, after fitting it to the value's shape and dtype."""
    g = fit(g, var.type)
    former = cotangents.get(var)
    cotangents[var] = g if former is None else Add.apply(former, g)


def active_values(nodes: Sequence[Node], wanted: set[Var]) -> set[Var]:
    """The values that depend differentiably on a wanted one."""
    active = {v for v in wanted if v.type.inexact}
    for node in nodes:
        if node.op.differentiable and any(v in active for v in node.inputs):
            active.update(out for out in node.outputs if out.type.inexact)
    return active


def _backward(
    trace: Trace, node: Node, needs: tuple[bool, ...], incoming: tuple[Tensor | None, ...]
) -> tuple[Any, ...]:
    symbols = tuple(Tensor._traced(trace, v) for v in node.inputs)
    results = tuple(Tensor._traced(trace, v) for v in node.outputs)
    if hasattr(node.op, "backward_symbolic"):
        grads: tuple[Any, ...] = node.op.backward_symbolic(node, symbols, results, needs, incoming)
        return grads
    cotangents = tuple(
        zeros(out.type) if g is None and out.type.inexact else g for g, out in zip(incoming, node.outputs, strict=True)
    )
    context = SymbolicContext(symbols, results, node.attrs, tuple(v.type for v in node.inputs), needs)
    found = node.op.backward(context, *cotangents)
    return found if type(found) is tuple else (found,)
