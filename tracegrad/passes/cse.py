"""Common subexpression elimination by value numbering (Cocke, 1970): what was computed once is not computed again.

Two nodes are the same if their operations are, their attributes are by type and bits (0.0 is not -0.0, 1 is not 1.0,
ir/identity.py), and their inputs are the same values, in either order where the operation commutes bit for bit. Calls
into Python and other impure nodes are never merged.
"""

from __future__ import annotations

from collections.abc import Hashable

from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.identity import attrs_key
from tracegrad.passes.purity import is_pure

# maximum and minimum are absent: of 0.0 and -0.0 they return the one that stands first (or second).
COMMUTATIVE = frozenset(
    {"add", "multiply", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"}
    | {"bitwise_and", "bitwise_or", "bitwise_xor"}
)


def cse(graph: Graph) -> Graph:
    """The graph in which equal pure nodes are one; the graph itself where there are none to merge."""
    first: dict[Hashable, Node] = {}
    replaced: dict[Var, Var] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if replaced and any(v in replaced for v in node.inputs):
            inputs = tuple(replaced.get(v, v) for v in node.inputs)
            node = Node(node.op, inputs, node.outputs, node.attrs, node.bodies, node.location)
        if not is_pure(node):
            nodes.append(node)
            continue
        same = first.setdefault(node_key(node), node)
        if same is node:
            nodes.append(node)
        else:
            replaced.update(zip(node.outputs, same.outputs, strict=True))
    if not replaced:
        return graph
    return graph.with_nodes(tuple(nodes), tuple(replaced.get(v, v) for v in graph.outputs))


def node_key(node: Node) -> Hashable:
    """What a node computes: equal keys compute equal bits."""
    inputs = tuple(map(id, node.inputs))
    if node.op.name in COMMUTATIVE and inputs[0] > inputs[1]:
        inputs = inputs[::-1]
    attrs = attrs_key(node.attrs) if node.attrs else ()
    return (node.op, inputs, attrs, tuple(map(id, node.bodies))) if node.bodies else (node.op, inputs, attrs)
