"""What a body reads of large arrays: a few elements of a table that a loop fills, say.

The adjoint of a loop needs what its steps computed with, not the arrays it came from. A step that reads one element of
an array it carries keeps that element on the tape and not the array.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.types import Type
from tracegrad.ops.constant import Constant
from tracegrad.ops.shape import BroadcastTo

LARGE = 64  # elements of an array of which only what is read may be kept
FEW = 4  # as far as it is at most a quarter of the array
GUESS = 1000  # the size a symbol stands for where sizes are compared


def readings(body: Graph, n_inputs: int) -> dict[Var, set[int]]:
    """The values, small beside them, that a body computes from large ones of its first inputs, each with the positions
    of these inputs; none if they are not small together."""
    whole = {v: {k} for k, v in enumerate(body.inputs[:n_inputs]) if _guessed(v) > LARGE}
    found: dict[Var, set[int]] = {}
    for node in body.nodes:
        read = [v for v in node.inputs if v in whole]
        if not read:
            continue
        size = max(map(_guessed, read))
        for out in node.outputs:
            (found if _guessed(out) * FEW <= size else whole)[out] = set().union(*(whole[v] for v in read))
    total = sum(map(_guessed, found))
    available = sum(_guessed(v) for v in body.inputs[:n_inputs] if v in whole)
    return found if 2 * total <= available else {}


def _guessed(v: Var) -> int:
    total = 1
    for d in v.type.shape:
        total *= d if isinstance(d, int) else GUESS
    return total


def with_readings(branches: Sequence[Graph]) -> tuple[Graph, ...]:
    """Branches that also return what each of them reads; it is zeros in the others. Where no adjoint comes, dead code
    elimination drops it."""
    found = [[v for v in readings(b, len(b.inputs)) if v not in b.outputs and not v.type.weak] for b in branches]
    bodies = []
    for branch in branches:
        nodes, outputs = list(branch.nodes), list(branch.outputs)
        for owner, values in zip(branches, found, strict=True):
            for v in values:
                outputs.append(v if owner is branch else zeros_in(nodes, v.type))
        bodies.append(Graph(branch.inputs, tuple(nodes), tuple(outputs), branch.name))
    return tuple(bodies)


def zeros_in(nodes: list[Node], type: Type) -> Var:
    """Zeros of that type, made by nodes that are added to the list."""
    value = Var(Type(type.dtype, ()))
    nodes.append(Node(Constant, (), (value,), {"value": np.zeros((), type.dtype), "weak": False}))
    if not type.shape:
        return value
    out = Var(type)
    nodes.append(Node(BroadcastTo, (value,), (out,), {"shape": type.shape}))
    return out
