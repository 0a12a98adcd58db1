"""The interpreter: runs any graph with NumPy. It defines what a graph means; compiled code must agree with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.ir.graph import Graph, Node, Var


def interpret(graph: Graph, args: Sequence[Any]) -> tuple[Any, ...]:
    """The graph's outputs for these inputs (ndarrays; Python numbers where the input is weak)."""
    values: dict[Var, Any] = dict(zip(graph.inputs, args, strict=True))
    last_use = _last_uses(graph)
    for position, node in enumerate(graph.nodes):
        results = run_node(node, [values[v] for v in node.inputs])
        values.update(zip(node.outputs, results, strict=True))
        for var in last_use.get(position, ()):
            values.pop(var, None)
    return tuple(values[v] for v in graph.outputs)


def run_node(node: Node, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The results of one node, as arrays (Python numbers where weak)."""
    if node.bodies and node.op.lower is None:
        results: Any = node.op.run_bodies(node, inputs)
    else:
        results = node.op.forward(*inputs, **node.attrs)
    if type(results) is not tuple:
        results = (results,)
    return tuple(
        np.asarray(r).item() if out.type.weak else r if isinstance(r, np.ndarray) else np.asarray(r)
        for r, out in zip(results, node.outputs, strict=True)
    )


def _last_uses(graph: Graph) -> dict[int, list[Var]]:
    """Per node position, the values nobody reads after it."""
    last: dict[Var, int] = {}
    for position, node in enumerate(graph.nodes):
        for var in (*node.inputs, *node.outputs):
            last[var] = position
    for var in graph.outputs:
        last.pop(var, None)
    uses: dict[int, list[Var]] = {}
    for var, position in last.items():
        uses.setdefault(position, []).append(var)
    return uses
