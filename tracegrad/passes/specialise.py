"""Loops and branches made smaller by what is known around them.

carry:      one that the body returns as it is becomes an invariant.
xs:         an array that repeats one element along its first axis becomes an invariant; the numbers 0, 1, 2, … become a
            carry that counts.
constants:  small ones move into the bodies, where they fold.
work:       what a loop computes from invariants alone is computed once, before it. Only operations that cannot fail
            are moved, since the loop may run no step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tracegrad.ir import lowering
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ops.arithmetic import Add
from tracegrad.ops.constant import Constant
from tracegrad.ops.loops import Region, Scan, While
from tracegrad.ops.loops.scan import body_parts, parts
from tracegrad.ops.shape import BroadcastTo, Reshape
from tracegrad.passes.fold import LIMIT
from tracegrad.passes.purity import is_pure
from tracegrad.records import record

_VIEWS = (lowering.IndexMap, lowering.Reshape)
_SAFE = (lowering.Elementwise, lowering.Reduction, lowering.Library)


def specialise(graph: Graph) -> Graph:
    """The graph with all this done for each loop and branch, outer ones first; itself where there are none."""
    if not any(node.bodies for node in graph.nodes):
        return graph
    replaced: dict[Var, Var] = {}
    definitions: dict[Var, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if replaced and any(v in replaced for v in node.inputs):
            inputs = tuple(replaced.get(v, v) for v in node.inputs)
            node = Node(node.op, inputs, node.outputs, node.attrs, node.bodies, node.location)
        made = _special(node, definitions, replaced) if issubclass(node.op, Region) else [node]
        for each in made:
            nodes.append(each)
            definitions.update(dict.fromkeys(each.outputs, each))
    return graph.with_nodes(tuple(nodes), tuple(replaced.get(v, v) for v in graph.outputs))


def _special(node: Node, definitions: Mapping[Var, Node], replaced: dict[Var, Var]) -> list[Node]:
    """What stands for a loop or branch: nodes before it, and itself. `replaced` receives outputs that are known."""
    before: list[Node] = []
    if node.op is Scan:
        node = _unchanged_carries(node, replaced)
        node = _repeated_xs(node, definitions)
        before, node = _counted_xs(node, definitions)
    node = _sunk_constants(node, definitions)
    if node.op in (Scan, While):
        hoisted, node = _hoisted(node)
        before += hoisted
    bodies = tuple(map(specialise, node.bodies))
    return [*before, Node(node.op, node.inputs, node.outputs, node.attrs, bodies, node.location)]


# ---- scan ---------------------------------------------------------------------------------------------------------


def _unchanged_carries(node: Node, replaced: dict[Var, Var]) -> Node:
    outer, body = parts(node), body_parts(node)
    still = [k for k, v in enumerate(body.carry) if body.final[k] is v]
    if not still:
        return node
    moving = [k for k in range(len(body.carry)) if k not in still]
    for k in still:
        replaced[outer.final[k]] = outer.carry[k]

    def ordered(carry: Sequence[Var], xs: tuple[Var, ...], invariants: tuple[Var, ...]) -> tuple[Var, ...]:
        return (*(carry[k] for k in moving), *xs, *invariants, *(carry[k] for k in still))

    graph = Graph(
        ordered(body.carry, body.xs, body.invariants), node.bodies[0].nodes,
        (*(body.final[k] for k in moving), *body.ys), node.bodies[0].name,
    )  # fmt: skip
    attrs = {**node.attrs, "n_carry": len(moving)}
    outputs = (*(outer.final[k] for k in moving), *outer.ys)
    return Node(Scan, ordered(outer.carry, outer.xs, outer.invariants), outputs, attrs, (graph,), node.location)


def _repeated_xs(node: Node, definitions: Mapping[Var, Node]) -> Node:
    outer, body = parts(node), body_parts(node)
    xs: list[tuple[Var, Var]] = []
    fixed: list[tuple[Var, Var]] = []
    prelude: list[Node] = []
    for x, element in zip(outer.xs, body.xs, strict=True):
        maker = definitions.get(x)
        source = maker.inputs[0] if maker is not None and maker.op is BroadcastTo else None
        made = None if source is None else _element_of(source, element)
        if source is None or made is None:
            xs.append((x, element))
            continue
        value, nodes = made
        fixed.append((source, value))
        prelude += nodes
    if not fixed:
        return node
    invariants = (*(v for _, v in fixed), *body.invariants)
    graph = Graph(
        (*body.carry, *(e for _, e in xs), *invariants), (*prelude, *node.bodies[0].nodes), node.bodies[0].outputs,
        node.bodies[0].name,
    )  # fmt: skip
    inputs = (*outer.carry, *(x for x, _ in xs), *(s for s, _ in fixed), *outer.invariants)
    return Node(Scan, inputs, node.outputs, {**node.attrs, "n_xs": len(xs)}, (graph,), node.location)


def _counted_xs(node: Node, definitions: Mapping[Var, Node]) -> tuple[list[Node], Node]:
    """The loop in which xs that are positions are counted, and the nodes before it that give the first number."""
    outer, body = parts(node), body_parts(node)
    length, reverse = node.attrs["length"], node.attrs["reverse"]
    counted = [k for k, x in enumerate(outer.xs) if _is_count(definitions.get(x))]
    if not counted or (reverse and not isinstance(length, int)):
        return [], node
    before, inside, starts, after = [], [], [], []
    for k in counted:
        attrs, type = definitions[outer.xs[k]].attrs, body.xs[k].type
        first = attrs["start"] + (length - 1) * attrs["step"] if reverse else attrs["start"]
        start, stride, following = Var(type), Var(type), Var(type)
        before.append(_number(start, first))
        inside.append(_number(stride, -attrs["step"] if reverse else attrs["step"]))
        inside.append(Node(Add, (body.xs[k], stride), (following,)))
        starts.append(start)
        after.append(following)
    rest = [k for k in range(len(outer.xs)) if k not in counted]

    def ordered(carry: Sequence[Var], more: Sequence[Var], xs: Sequence[Var], fixed: Sequence[Var]) -> tuple[Var, ...]:
        return (*carry, *more, *(xs[k] for k in rest), *fixed)

    graph = Graph(
        ordered(body.carry, [body.xs[k] for k in counted], body.xs, body.invariants),
        (*node.bodies[0].nodes, *inside), (*body.final, *after, *body.ys), node.bodies[0].name,
    )  # fmt: skip
    attrs = {**node.attrs, "n_carry": len(body.carry) + len(counted), "n_xs": len(rest)}
    outputs = (*outer.final, *(Var(v.type) for v in after), *outer.ys)
    inputs = ordered(outer.carry, starts, outer.xs, outer.invariants)
    return before, Node(Scan, inputs, outputs, attrs, (graph,), node.location)


def _is_count(maker: Node | None) -> bool:
    if maker is None or maker.name != "iota" or len(maker.attrs["shape"]) != 1:
        return False
    return maker.output.type.dtype.kind in "iu" and all(isinstance(maker.attrs[a], int) for a in ("start", "step"))


def _number(var: Var, value: int) -> Node:
    return Node(Constant, (), (var,), {"value": np.asarray(value, var.type.dtype), "weak": False})


def _element_of(source: Var, element: Var) -> tuple[Var, list[Node]] | None:
    """The body's input for `source`, of which `element` is the same part in each step, and nodes that take the part."""
    shape, wanted = source.type.shape, element.type.shape
    if source.type.weak:
        return None
    if shape == wanted:
        return element, []
    value = Var(source.type, element.name)
    if shape == (1, *wanted):
        return value, [Node(Reshape, (value,), (element,), {"shape": wanted})]
    if source.type.size == 1:
        scalar = Var(source.type.with_shape(()))
        flat = Node(Reshape, (value,), (scalar,), {"shape": ()})
        return value, [flat, Node(BroadcastTo, (scalar,), (element,), {"shape": wanted})]
    return None


# ---- constants ----------------------------------------------------------------------------------------------------


@record(frozen=False)
class _Sunk:
    """A body that loses the inputs in `gone`; `prelude` defines what they were."""

    gone: set[int] = field(default_factory=set)
    prelude: list[Node] = field(default_factory=list)

    def body(self, graph: Graph) -> Graph:
        inputs = tuple(v for k, v in enumerate(graph.inputs) if k not in self.gone)
        return Graph(inputs, (*self.prelude, *graph.nodes), graph.outputs, graph.name)


def _sunk_constants(node: Node, definitions: Mapping[Var, Node]) -> Node:
    sunk = [_Sunk() for _ in node.bodies]
    gone: set[int] = set()
    for position, var in enumerate(node.inputs):
        maker = definitions.get(var)
        if maker is None or maker.op is not Constant or maker.attrs["value"].size > LIMIT:
            continue
        places = _places(node, position)
        for which, k in places:
            sunk[which].gone.add(k)
            sunk[which].prelude.append(Node(Constant, (), (node.bodies[which].inputs[k],), maker.attrs))
        if places:
            gone.add(position)
    if not gone:
        return node
    attrs: Any = node.attrs
    if node.op is While:
        first, end = attrs["n_carry"], attrs["n_carry"] + attrs["n_condition"]
        attrs = {**attrs, "n_condition": attrs["n_condition"] - sum(first <= p < end for p in gone)}
    bodies = tuple(s.body(b) for s, b in zip(sunk, node.bodies, strict=True))
    inputs = tuple(v for p, v in enumerate(node.inputs) if p not in gone)
    return Node(node.op, inputs, node.outputs, attrs, bodies, node.location)


def _places(node: Node, position: int) -> list[tuple[int, int]]:
    """Where an invariant input of the node stands in its bodies: (body, input); none for other inputs."""
    if node.op is Scan:
        return [(0, position)] if position >= node.attrs["n_carry"] + node.attrs["n_xs"] else []
    if node.op is While:
        first, end = node.attrs["n_carry"], node.attrs["n_carry"] + node.attrs["n_condition"]
        if position < first:
            return []
        return [(0, position)] if position < end else [(1, position - node.attrs["n_condition"])]
    return [(which, position - 1) for which in range(len(node.bodies))] if position else []


# ---- work that is the same in each step ---------------------------------------------------------------------------


def _hoisted(node: Node) -> tuple[list[Node], Node]:
    """Nodes to run before the loop, and the loop without them."""
    number = len(node.bodies) - 1  # the body proper
    body = node.bodies[number]
    outside = {
        body.inputs[k]: node.inputs[p]
        for p in range(len(node.inputs))
        for which, k in _places(node, p)
        if which == number
    }
    still: dict[Var, Node | None] = dict.fromkeys(outside)
    for each in body.nodes:
        if not each.bodies and is_pure(each) and all(v in still for v in each.inputs):
            still.update(dict.fromkeys(each.outputs, each))
    moved = {n for n in still.values() if n is not None and isinstance(n.op.lower, _SAFE) and n.inputs}
    moved |= _factors(body, still)
    moved = {n for n in moved if _safe(n, still)}
    if not moved:
        return [], node
    env = dict(outside)
    before = []
    for each in _with_ancestors(body, moved, still):
        outputs = tuple(Var(v.type, v.name) for v in each.outputs)
        before.append(Node(each.op, tuple(env[v] for v in each.inputs), outputs, each.attrs, (), each.location))
        env.update(zip(each.outputs, outputs, strict=True))
    rest = tuple(n for n in body.nodes if n not in moved)
    used = {v for n in rest for v in n.inputs} | set(body.outputs)
    new = [v for n in body.nodes if n in moved for v in n.outputs if v in used]
    graph = Graph((*body.inputs, *new), rest, body.outputs, body.name)
    bodies = (*node.bodies[:number], graph)
    inputs = (*node.inputs, *(env[v] for v in new))
    return before, Node(node.op, inputs, node.outputs, node.attrs, bodies, node.location)


def _factors(body: Graph, still: Mapping[Var, Node | None]) -> set[Node]:
    """Views that products and gathers in the loop read, which have to be copied for that: once is enough."""
    definitions = body.definitions()
    pending = [v for n in body.nodes if n.name == "matmul" for v in n.inputs]
    read = (definitions.get(n.inputs[0]) for n in body.nodes if n.name == "gather")
    found = {n for n in read if n is not None and isinstance(n.op.lower, _VIEWS) and n.output in still}
    while pending:
        var = pending.pop()
        maker = definitions.get(var)
        if maker is not None and maker.name == "transpose":
            pending += maker.inputs
        elif maker is not None and var in still and isinstance(maker.op.lower, _VIEWS):
            found.add(maker)
    return found


def _safe(node: Node, still: Mapping[Var, Node | None]) -> bool:
    """Whether nothing that the node is computed from, inside the loop, can fail."""
    pending = [node]
    while pending:
        lower = pending[-1].op.lower
        inputs = pending.pop().inputs
        if lower is None or isinstance(lower, lowering.Gather | lowering.ScatterAdd):
            return False
        pending += [maker for v in inputs if (maker := still[v]) is not None]
    return True


def _with_ancestors(body: Graph, moved: set[Node], still: Mapping[Var, Node | None]) -> list[Node]:
    wanted = set(moved)
    for each in reversed(body.nodes):
        if each in wanted:
            wanted.update(maker for v in each.inputs if (maker := still[v]) is not None)
    return [n for n in body.nodes if n in wanted]
