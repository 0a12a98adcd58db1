"""Batching: the graph that does for every row of its inputs what a graph does for one.

Batched values carry the rows on a new first axis. Where an operation can take all rows at once, a rule
(`batching_rules`) says how; every other one runs row by row (`ops/mapped`), which is right for anything. What depends
on no batched input is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracegrad.errors import AutogradError
from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.types import Type
from tracegrad.passes.adjoint import constants_met
from tracegrad.passes.batching_rules import RULES
from tracegrad.state import setting
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace, splice


def batch(graph: Graph, size: DimLike, flags: Sequence[bool]) -> tuple[Graph, tuple[bool, ...]]:
    """The graph for `size` rows of those inputs whose flag is set, and which of its outputs have rows."""
    trace = Trace(graph.name)
    values: dict[Var, tuple[Var, bool]] = {}
    for var, flag in zip(graph.inputs, flags, strict=True):
        if flag:
            batched = Var(rows_of(var.type, size), var.name)
            values[var] = (batched, True)
        else:
            values[var] = (var, False)
        trace.inputs.append(values[var][0])
    with setting(trace=trace, grad_enabled=True):
        for node in graph.nodes:
            _batch_node(trace, node, size, values)
    nodes = (*constants_met(trace), *trace.nodes)
    outputs = tuple(values[v][0] for v in graph.outputs)
    return Graph(tuple(trace.inputs), nodes, outputs, graph.name), tuple(values[v][1] for v in graph.outputs)


def rows_of(type: Type, size: DimLike) -> Type:
    """The type of `size` rows, each of that type."""
    return Type(type.dtype, (size, *type.shape))


def _batch_node(trace: Trace, node: Node, size: DimLike, values: dict[Var, tuple[Var, bool]]) -> None:
    found = [values[v] for v in node.inputs]
    flags = tuple(flag for _, flag in found)
    if not any(flags):
        trace._record(Node(node.op, tuple(v for v, _ in found), node.outputs, node.attrs, node.bodies, node.location))
        values.update((out, (out, False)) for out in node.outputs)
        return
    tensors = tuple(Tensor._traced(trace, v) for v, _ in found)
    trace.location = node.location
    results = batched_results(node, tensors, flags, size)
    trace.location = None
    for out, result in zip(node.outputs, results, strict=True):
        var = trace.lift(result)
        if var.type != rows_of(out.type, size):
            raise AutogradError(f"batching {node.name} gave {var.type} for rows of {out.type}", location=node.location)
        values[out] = (var, True)


def batched_results(
    node: Node, tensors: tuple[Tensor, ...], flags: tuple[bool, ...], size: DimLike
) -> Sequence[Tensor]:
    """The node's outputs for all rows: by its rule, or row by row."""
    from tracegrad.ops.mapped import map_rows

    own = getattr(node.op, "batch_symbolic", None)
    rule = own if own is not None else RULES.get(node.name) if node.op.__module__.startswith("tracegrad.") else None
    results = None if rule is None else rule(node, tensors, flags, size)
    return map_rows(single(node), tensors, flags, size) if results is None else results


def single(node: Node) -> Graph:
    """The graph that is this one node. An input that stands twice becomes two."""
    inputs = tuple(Var(v.type, v.name) for v in node.inputs)
    outputs = tuple(Var(v.type, v.name) for v in node.outputs)
    copy = Node(node.op, inputs, outputs, node.attrs, node.bodies, node.location)
    return Graph(inputs, (copy,), outputs, node.name)


def splice_batched(
    trace: Trace, graph: Graph, tensors: Sequence[Tensor], flags: Sequence[bool], size: DimLike
) -> tuple[list[Tensor], tuple[bool, ...]]:
    """Append the batched graph to a trace: its outputs, and which of them have rows."""
    batched, has_rows = batch(graph, size, flags)
    outputs = splice(trace, batched, tuple(t._var for t in tensors))
    return [Tensor._traced(trace, v) for v in outputs], has_rows
