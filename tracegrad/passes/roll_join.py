"""Stacks of what loops return: joined elements of a stack are the stack, or rows of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.ir.graph import NO_ATTRS, Graph, Location, Node, Var
from tracegrad.ir.types import Type
from tracegrad.ops.constant import Constant
from tracegrad.ops.gather import Gather
from tracegrad.ops.joining import Concatenate
from tracegrad.ops.loops import Weaken
from tracegrad.ops.shape import BroadcastTo, Reshape, Transpose
from tracegrad.ops.slicing import Slice
from tracegrad.ops.stop import StopGradient
from tracegrad.passes.roll_body import Elements

FEWEST = 8  # operands of a concatenation that may be elements of stacks; stacks whose elements are picked out
FEW = 4  # as far as stacks have at most so many elements for each one that is picked out
VIEWS = (Reshape, Slice, Transpose, BroadcastTo, StopGradient)
UNREAD = (*VIEWS, Constant, Weaken)  # what rolling leaves behind without readers


def join(graph: Graph, elements: Elements) -> Graph:
    """The graph in which concatenated elements of one stack are that stack, without the nodes nobody reads then."""
    views = {n.outputs[0]: n for n in graph.nodes if n.op is Reshape or n.op is Slice}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op is Concatenate and len(node.inputs) >= FEWEST:
            nodes += _joined(node, views, elements)
        else:
            nodes.append(node)
    return without_unread(graph.with_nodes(tuple(nodes)))


def without_unread(graph: Graph) -> Graph:
    """The graph without the views and constants that nobody reads."""
    live = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if node.op not in UNREAD or node.outputs[0] in live:
            kept.append(node)
            live.update(node.inputs)
    return graph.with_nodes(tuple(reversed(kept)))


def _joined(node: Node, views: dict[Var, Node], elements: Elements) -> list[Node]:
    """A concatenation whose operands in a row that are elements of a stack, or of a few, are one."""
    axis = node.attrs["axis"]
    nodes: list[Node] = []
    operands: list[Var] = []
    known = [_element(v, views, elements) for v in node.inputs]
    position = end = 0
    while position < len(node.inputs):
        count, stride = evenly(node.inputs, position, views, elements)
        end = end if end > position else _end_of_elements(node.inputs, known, position)
        shape = node.inputs[position].type.shape
        gathered = None
        if end - position >= max(FEWEST, FEW * count):
            gathered = _gathered(known[position:end], shape, nodes, node.location)  # type: ignore[arg-type]
        if gathered is not None:
            part, count = gathered, end - position
        elif count >= 2:
            stack, first = known[position]  # type: ignore[misc]
            part = part_of(stack, first, count, stride, nodes, node.location)
        else:
            operands.append(node.inputs[position])
            position += 1
            continue
        # (count, *before, size, *after) of an element that is (*before, size, *after) along the axis
        if part.type.shape[1:] != shape:
            part = _add(nodes, Reshape, part, (count, *shape), {"shape": (count, *shape)}, node.location)
        order = (*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1))
        if axis:
            moved = tuple((count, *shape)[k] for k in order)
            part = _add(nodes, Transpose, part, moved, {"axes": order}, node.location)
        whole = (*shape[:axis], count * shape[axis], *shape[axis + 1 :])
        if part.type.shape != whole:
            part = _add(nodes, Reshape, part, whole, {"shape": whole}, node.location)
        operands.append(part)
        position += count
    return [*nodes, Node(Concatenate, tuple(operands), node.outputs, node.attrs, (), node.location)]


def _end_of_elements(inputs: Sequence[Var], known: Sequence[tuple[Var, int] | None], position: int) -> int:
    """The end of the operands from here on that are elements of stacks and have the same type."""
    type = inputs[position].type
    end = position
    while end < len(inputs) and known[end] is not None and inputs[end].type == type:
        end += 1
    return end


def _gathered(
    places: Sequence[tuple[Var, int]], shape: tuple[Any, ...], nodes: list[Node], location: Location | None
) -> Var | None:
    """Elements of a few stacks, in any order, picked out of all of them; None where these are large beside that."""
    stacks = list(dict.fromkeys(stack for stack, _ in places))
    rows = [n for stack in stacks if isinstance(n := stack.type.shape[0], int)]
    if len(rows) < len(stacks) or len(stacks) > FEWEST:
        return None
    if len(stacks) > 1 and sum(rows) > FEW * len(places):
        return None
    seen = [
        s if s.type.shape[1:] == shape else _add(nodes, Reshape, s, (n, *shape), {"shape": (n, *shape)}, location)
        for s, n in zip(stacks, rows, strict=True)
    ]
    whole = seen[0]
    if len(seen) > 1:
        whole = Var(Type(seen[0].type.dtype, (sum(rows), *shape)))
        nodes.append(Node(Concatenate, tuple(seen), (whole,), {"axis": 0}, (), location))
    first = dict(zip(stacks, np.cumsum([0, *rows[:-1]]).tolist(), strict=True))
    numbers = np.array([first[stack] + number for stack, number in places])
    table = Var(Type(numbers.dtype, numbers.shape))
    nodes.append(Node(Constant, (), (table,), {"value": numbers, "weak": False}, (), None))
    found = Var(Type(whole.type.dtype, (len(places), *shape)))
    nodes.append(Node(Gather, (whole, table), (found,), NO_ATTRS, (), location))
    return found


def evenly(inputs: Sequence[Var], position: int, views: dict[Var, Node], elements: Elements) -> tuple[int, int]:
    """How many operands from here on are elements of one stack at even distances, and the distance."""
    first = _element(inputs[position], views, elements)
    count = stride = 0
    while first is not None and position + count < len(inputs):
        found = _element(inputs[position + count], views, elements)
        if found is None or found[0] is not first[0] or inputs[position + count].type != inputs[position].type:
            break
        if count == 1:
            stride = found[1] - first[1]
        if found[1] != first[1] + count * stride or (count and not stride):
            break
        count += 1
    return count, stride


def _element(var: Var, views: dict[Var, Node], elements: Elements) -> tuple[Var, int] | None:
    """The stack and number of an operand of a concatenation, which is an element or one with a new shape: of a stack
    that a loop returns, or of any array along its first axis."""
    found = elements.get(var)
    while found is None and (node := views.get(var)) is not None:
        if node.op is Slice:
            return _row(node)
        var = node.inputs[0]
        found = elements.get(var)
    return found


def _row(node: Node) -> tuple[Var, int] | None:
    (source,), start, size = node.inputs, node.attrs["start"], node.attrs["size"]
    if not size or size[0] != 1 or size[1:] != source.type.shape[1:] or not isinstance(start[0], int):
        return None
    whole = all(a == 0 for a in start[1:]) and all(s == 1 for s in node.attrs["step"][1:])
    return (source, start[0]) if whole else None


def part_of(stack: Var, first: int, count: int, stride: int, nodes: list[Node], location: Location | None) -> Var:
    shape = stack.type.shape
    if (first, count, stride) == (0, shape[0], 1):
        return stack
    zero, ones = (0,) * (len(shape) - 1), (1,) * (len(shape) - 1)
    attrs = {"start": (first, *zero), "size": (count, *shape[1:]), "step": (stride, *ones)}
    return _add(nodes, Slice, stack, (count, *shape[1:]), attrs, location)


def _add(
    nodes: list[Node], op: Any, source: Var, shape: tuple[Any, ...], attrs: dict[str, Any], location: Location | None
) -> Var:
    out = Var(Type(source.type.dtype, shape))
    nodes.append(Node(op, (source,), (out,), attrs, (), location))
    return out
