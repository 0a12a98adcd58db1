"""Constant folding: what depends on small constants alone is computed now, by the interpreter.

Results larger than `LIMIT` elements stay computations, and so does the broadcast of a constant, which as a computation
costs nothing and as an array costs memory. What raises when it is run raises at run time, not here.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tracegrad.ir.dims import Dim
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.interpret import run_node
from tracegrad.ops.constant import Constant
from tracegrad.passes.purity import is_pure

LIMIT = 64
_SYMBOLIC = frozenset({"constant", "broadcast_to"})


def fold(graph: Graph) -> Graph:
    """The graph with computations on constants done; the graph itself where there are none."""
    constants: dict[Var, Any] = {}
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        folded = fold_node(node, constants)
        changed = changed or folded is not None
        for one in (node,) if folded is None else folded:
            nodes.append(one)
            if one.op is Constant and one.attrs["value"].size <= LIMIT:
                constants[one.output] = constant_value(one)
    return graph.with_nodes(tuple(nodes)) if changed else graph


def constant_value(node: Node) -> Any:
    """What the interpreter computes for a constant node: an array, or a Python number where it is weak."""
    value = node.attrs["value"]
    return value.item() if node.output.type.weak else value


def fold_node(node: Node, constants: dict[Var, Any]) -> tuple[Node, ...] | None:
    """Constant nodes for the outputs of a node whose inputs are all in `constants`; None where it must stay."""
    for var in node.inputs:
        if var not in constants:
            return None
    if node.op.name in _SYMBOLIC:
        return None
    if node.bodies or not is_pure(node) or any(has_symbols(a) for a in node.attrs.values()):
        return None
    if not all(isinstance(size := v.type.size, int) and size <= LIMIT for v in node.outputs):
        return None
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = run_node(node, [constants[v] for v in node.inputs])
    except (ArithmeticError, ValueError, IndexError, TypeError):
        return None
    return tuple(constant_node(var, result, node) for var, result in zip(node.outputs, results, strict=True))


def has_symbols(attribute: Any) -> bool:
    """Whether the value of an attribute differs with the sizes of a call."""
    return isinstance(attribute, Dim) or (type(attribute) is tuple and any(map(has_symbols, attribute)))


def constant_node(var: Var, value: Any, origin: Node | None = None) -> Node:
    """A constant node that defines `var`, with the location of the node it replaces."""
    array = np.array(value, var.type.dtype)
    array.flags.writeable = False
    attrs = {"value": array, "weak": var.type.weak}
    return Node(Constant, (), (var,), attrs, (), origin.location if origin is not None else None)
