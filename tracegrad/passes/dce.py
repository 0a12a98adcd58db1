"""Dead code elimination: nodes whose results nobody reads go, unless running them has an effect of its own."""

from __future__ import annotations

from tracegrad.ir.graph import Graph, Var
from tracegrad.passes.prune import pruned
from tracegrad.passes.purity import is_pure


def dce(graph: Graph) -> Graph:
    """The graph without dead nodes, and with loops and branches that only compute what is read; the graph itself where
    there is nothing to remove. Inputs stay, used or not."""
    live: set[Var] = set(graph.outputs)
    kept = []
    changed = False
    for node in reversed(graph.nodes):
        if any(v in live for v in node.outputs) or not is_pure(node):
            if node.bodies and is_pure(node):
                smaller = pruned(node, live, dce)
                changed = changed or smaller is not node
                node = smaller
            kept.append(node)
            live.update(node.inputs)
    if len(kept) == len(graph.nodes) and not changed:
        return graph
    return graph.with_nodes(tuple(reversed(kept)))
