"""Which nodes and statements the outputs need, and which nodes run in Python."""

from __future__ import annotations

import numpy as np

from tracegrad.ir import lowering
from tracegrad.ir.graph import Graph, Node
from tracegrad.schedule.statements import CallStatement, Program, Statement

_SCALAR_KINDS = "biuf"
REGIONS = ("scan", "while", "cond", "sized")  # loops and branches: nodes whose bodies are programs of their own


def has_scalars(dtype: np.dtype) -> bool:
    """Whether compiled code computes with elements of this dtype; it hands the others to Python, array by array."""
    return dtype.kind in _SCALAR_KINDS and dtype != np.float16 and dtype.itemsize <= 8


def runs_in_python(node: Node) -> bool:
    """Whether a node is a call back into its own NumPy `forward`."""
    if isinstance(node.op.lower, lowering.Constant) or node.name in REGIONS:
        return False
    if isinstance(node.op.lower, lowering.Matrices):
        return node.output.type.dtype not in (np.float32, np.float64)
    return node.op.lower is None or not all(has_scalars(v.type.dtype) for v in (*node.inputs, *node.outputs))


def live_nodes(graph: Graph) -> set[Node]:
    """The nodes that outputs depend on."""
    needed = set(graph.outputs)
    live = set()
    for node in reversed(graph.nodes):
        if any(out in needed for out in node.outputs):
            live.add(node)
            needed.update(node.inputs)
    return live


def needed(program: Program) -> list[Statement | CallStatement]:
    """The statements that outputs depend on, after producers have been written out where they are read."""
    wanted = {program.root(v) for v in program.outputs}
    kept: list[Statement | CallStatement] = []
    for statement in reversed(program.statements):
        if isinstance(statement, CallStatement):
            if any(v in wanted for v in statement.outputs) or statement.kernel == "host":
                kept.append(statement)
                wanted.update(program.root(v) for v in statement.inputs)
        elif statement.var in wanted:
            kept.append(statement)
            wanted.update(program.root(r.var) for r in statement.refs)
            if statement.base is not None:
                wanted.add(program.root(statement.base))
    kept.reverse()
    return kept
