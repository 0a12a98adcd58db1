"""Which nodes and statements the outputs need, and which nodes run in Python."""

from __future__ import annotations

import numpy as np

from tracegrad.ir import lowering
from tracegrad.ir.graph import Graph, Node
from tracegrad.schedule.statements import CallStatement, Program, Statement

_SCALAR_KINDS = "biuf"
REGIONS = ("scan", "while", "cond", "sized")  # loops and branches: nodes whose bodies are programs of their own

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


def has_scalars(dtype: np.dtype) -> bool:
    """Whether compiled code computes with elements of this dtype; it hands the others to Python, array by array."""
    return dtype.kind in _SCALAR_KINDS and dtype != np.float16 and dtype.itemsize <= 8


def runs_in_python(node: Node) -> bool:
    """Whether a node is a call back into its own NumPy `forward`."""
    if isinstance(node.op.lower, lowering.Constant) or node.name in REGIONS:
        return False
    if isinstance(node.op.lower, lowering.Matrices):
        return node.output.type.dtype not in (np.float32, np.float64)
    if node.op.lower is None or not all(has_scalars(v.type.dtype) for v in (*node.inputs, *node.outputs)):
        return True
    return _may_refuse(node) or _has_no_common_integers(node)


def _may_refuse(node: Node) -> bool:
    """Whether it is a power of integers whose exponents may be negative, where NumPy raises an error."""
    if node.name != "power" or node.output.type.dtype.kind not in "iu":
        return False
    exponent = node.inputs[1].type
    return exponent.dtype.kind == "i" and not exponent.weak  # Python integers were looked at while recording


def _has_no_common_integers(node: Node) -> bool:
    """Whether it compares uint64 with signed integers, which no dtype of a loop holds both; NumPy is exact."""
    if node.name not in COMPARISONS:
        return False
    types = [v.type for v in node.inputs]
    return any(t.dtype == np.uint64 for t in types) and any(t.dtype.kind == "i" and not t.weak for t in types)


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
