"""Scans whose steps do not depend on each other, so that they may run on several threads.

`tg.map` carries nothing. Its adjoint carries sums of what the steps add to cotangents of captured values. A carry may
also count, as positions that a loop runs over do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.schedule.loops import Call, LoopProgram, region_of
from tracegrad.schedule.rewrite import walk

SUM = 0


def independent_steps(node: Node, bodies: Sequence[LoopProgram]) -> tuple[int, ...] | None:
    """The carries of a loop whose steps may run on several threads; None for others, and where a step calls Python."""
    return None if any(map(_calls_python, bodies)) else independent_carries(node)


def independent_carries(node: Node) -> tuple[int, ...] | None:
    """Per carry of a scan `SUM`, where steps do nothing with it but add to it, or what each step counts it up by; None
    where a step needs the step before."""
    if node.name != "scan" or node.attrs["length"] in (0, 1):
        return None
    (body,) = node.bodies
    makers, users = body.definitions(), _users(body)
    found = []
    for carry, out in zip(body.inputs[: node.attrs["n_carry"]], body.outputs, strict=False):
        step = _counted(carry, out, makers)
        if step is None and not _is_sum(body, carry, out, users):
            return None
        found.append(SUM if step is None else step)
    return tuple(found)


def _calls_python(program: LoopProgram) -> bool:
    for statement in walk(program.body):
        if isinstance(statement, Call):
            region = region_of(statement)
            if statement.kernel == "host" or (region is not None and any(map(_calls_python, region.bodies))):
                return True
    return False


def _counted(carry: Var, out: Var, makers: Mapping[Var, Node]) -> int | None:
    """What is added to an integer in each step, if that is one number."""
    node = makers.get(out)
    if node is None or node.name != "add" or carry.type.shape or carry.type.dtype.kind != "i" or out.type != carry.type:
        return None
    if carry not in node.inputs:
        return None
    other = makers.get(node.inputs[1] if node.inputs[0] is carry else node.inputs[0])
    if other is None or other.name != "constant" or not np.any(other.attrs["value"]):
        return None
    return int(other.attrs["value"])


Users = Mapping[Var, Sequence[tuple[Node, int]]]


def _users(body: Graph) -> Users:
    """Per value the nodes that read it, each with the position of the operand."""
    found: dict[Var, list[tuple[Node, int]]] = {}
    for node in body.nodes:
        for position, v in enumerate(node.inputs):
            found.setdefault(v, []).append((node, position))
    return found


def _is_sum(body: Graph, var: Var, out: Var, users: Users) -> bool:
    """Whether `out` is `var` with values added to it, which do not depend on it and which nobody else sees."""
    if var.type.dtype.kind not in "iuf" or var.type.weak:
        return False
    while var is not out:
        following = users.get(var, ())
        if len(following) != 1 or var in body.outputs:
            return False
        (node, position) = following[0]
        added = _added(node, position)
        if added is None or added.type != var.type:
            return False
        var = added
    return var not in users and body.outputs.count(var) == 1


def _added(node: Node, position: int) -> Var | None:
    """The result of a node that adds to its operand at that position."""
    if node.name == "add" or (node.name == "subtract" and position == 0):
        return node.output
    if node.name == "write" and position == 0 and node.attrs["add"]:
        return node.output
    if node.name == "scan" and position < node.attrs["n_carry"]:
        (body,) = node.bodies
        k = position
        return node.outputs[k] if _is_sum(body, body.inputs[k], body.outputs[k], _users(body)) else None
    if node.name == "cond" and position:
        for k, out in enumerate(node.outputs):
            if all(_is_sum(b, b.inputs[position - 1], b.outputs[k], _users(b)) for b in node.bodies):
                return out
    return None
