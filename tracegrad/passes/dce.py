"""Dead code elimination: nodes whose results nobody reads go, unless running them has an effect of its own."""

from __future__ import annotations

from tracegrad.ir.graph import Graph, Var
from tracegrad.passes.purity import is_pure


def dce(graph: Graph) -> Graph:
    """The graph without dead nodes; the graph itself where there are none. Inputs stay, used or not."""
    live: set[Var] = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if any(v in live for v in node.outputs) or not is_pure(node):
            kept.append(node)
            live.update(node.inputs)
    if len(kept) == len(graph.nodes):
        return graph
    return graph.with_nodes(tuple(reversed(kept)))
