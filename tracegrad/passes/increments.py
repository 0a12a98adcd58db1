"""Sums in loops with what is zero but for a region: it is added where that region lies.

The cotangent of `x[i]` with respect to x is zeros with one element put there. To add that to the cotangent that x has
already costs as much as x is long, and a loop that reads one element per step pays it in every step. As a `Write` that
adds to the region it costs what the region does, for the schedule does it in place:

    a + unslice(v), a + scatter_add(v, i)   →  write(a, v, add)
    a + reshape(of such)                    →  the same on a in the other shape
    a + cond(…) of such sums                →  a cond that adds to a
    a + a loop's sum that starts with 0     →  a loop's sum that starts with a
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ops.arithmetic import Add
from tracegrad.ops.loops import Cond, Scan, Sized, While
from tracegrad.ops.shape import reshape, transpose
from tracegrad.ops.writes import MOST_INDICES, Write
from tracegrad.passes.adjoint import constants_met
from tracegrad.passes.bodies import in_bodies, with_bodies
from tracegrad.records import record
from tracegrad.state import setting, state
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace

SMALL = 64  # elements of arrays that live in registers
FEW = 4  # a region is worth it if it is at most a quarter of the array
GUESS = 1000  # the size a symbol stands for where sizes are compared
_PLACING = frozenset({"unslice", "transpose", "reshape", "scatter_add"})
_LINKS = frozenset({"add", "write"})


def increments(graph: Graph) -> Graph:
    """The graph with such sums in the bodies of its loops as writes; itself where there are none."""
    nodes = []
    for node in graph.nodes:
        if node.bodies:
            inside = in_loop if node.op in (Scan, While) else increments
            bodies = tuple(map(inside, node.bodies))
            if any(new is not old for new, old in zip(bodies, node.bodies, strict=True)):
                node = with_bodies(node, bodies)
        nodes.append(node)
    same = all(new is old for new, old in zip(nodes, graph.nodes, strict=True))
    return graph if same else graph.with_nodes(tuple(nodes))


def in_loop(body: Graph) -> Graph:
    """The same for something that is run in every step of a loop."""
    while (moved := _moved_inside(body)) is not None:
        body = moved
    body = in_bodies(body, in_loop)
    makers = body.definitions()
    sums = [n for n in body.nodes if n.name == "add" and _dense_and_sparse(n, makers) is not None]
    if not sums:
        return body
    trace = Trace(body.name)
    trace.inputs.extend(body.inputs)
    image: dict[Var, Var] = {}
    chosen = set(sums)
    with setting(trace=trace, grad_enabled=True):
        for node in body.nodes:
            if node in chosen:
                dense, sparse = _dense_and_sparse(node, makers) or (None, None)
                assert dense is not None and sparse is not None
                result = Tensor._traced(trace, image.get(dense, dense))
                trace.location = node.location
                result = _with(result, sparse, makers, image)
                trace.location = None
                image[node.output] = result._var
            else:
                inputs = tuple(image.get(v, v) for v in node.inputs)
                trace._record(Node(node.op, inputs, node.outputs, node.attrs, node.bodies, node.location))
    outputs = tuple(image.get(v, v) for v in body.outputs)
    return Graph(body.inputs, (*constants_met(trace), *trace.nodes), outputs, body.name)


def guessed(shape: tuple[DimLike, ...]) -> int:
    """The number of elements, symbols guessed."""
    total = 1
    for d in shape:
        total *= d if isinstance(d, int) else GUESS
    return total


def _worth(node: Node) -> bool:
    out = node.output.type
    return out.dtype.kind in "fc" and guessed(out.shape) > SMALL and all(v.type == out for v in node.inputs)


def _dense_and_sparse(node: Node, makers: Mapping[Var, Node]) -> tuple[Var, Var] | None:
    """The operands of a sum of which one is zero but for a few regions."""
    if not _worth(node):
        return None
    a, b = node.inputs
    few = _is_sparse(a, makers), _is_sparse(b, makers)
    return None if few[0] is few[1] else (b, a) if few[0] else (a, b)


def _is_sparse(var: Var, makers: Mapping[Var, Node]) -> bool:
    node = makers.get(var)
    if node is None:
        return False
    if node.name == "add":
        return all(v.type == var.type and _is_sparse(v, makers) for v in node.inputs)
    if node.name not in _PLACING:
        return False
    found = _region(var, makers)
    if found is None and node.name == "reshape":
        return _is_sparse(node.inputs[0], makers)
    return found is not None and guessed(found.value.type.shape) * FEW <= guessed(var.type.shape)


def _with(base: Tensor, var: Var, makers: Mapping[Var, Node], image: Mapping[Var, Var]) -> Tensor:
    """The base with what is sparse added, where its elements lie."""
    node = makers[var]
    if node.name == "add":
        for each in node.inputs:
            base = _with(base, each, makers, image)
        return base
    region = _region(var, makers)
    if region is not None:
        return _written(base, region, image)
    inner = node.inputs[0]
    seen = _with(reshape(base, inner.type.shape), inner, makers, image)
    result: Tensor = reshape(seen, base.shape)
    return result


# ---- regions ------------------------------------------------------------------------------------------------------


@record
class _Region:
    """Where the elements of `value` stand in an array: per axis of the array the axis of the value that runs along it
    (None where it has one position), the first position and the step; `indices` choose from the first `extents` places
    on `axes`."""

    value: Var
    run: tuple[int | None, ...]
    start: tuple[DimLike, ...]
    step: tuple[int, ...]
    axes: tuple[int, ...] = ()
    extents: tuple[DimLike, ...] = ()
    indices: tuple[Var, ...] = ()


def _region(var: Var, makers: Mapping[Var, Node]) -> _Region | None:
    """The region of what is placed by a chain of nodes; None where it is none."""
    shape, placed = var.type.shape, False
    found: _Region | None = _Region(var, tuple(range(len(shape))), (0,) * len(shape), (1,) * len(shape))
    while found is not None and (node := makers.get(found.value)) is not None and node.name in _PLACING:
        if node.name == "scatter_add":
            return _scattered(found, node)
        before = _before(found, node)
        if before is None:
            break
        placed = placed or node.name == "unslice"
        found = before
    return found if placed else None


def _before(region: _Region, node: Node) -> _Region | None:
    """The region of the operand of a node that makes the value."""
    run, start, step = list(region.run), list(region.start), list(region.step)
    if node.name == "unslice" and node.attrs.get("fill", 0) == 0:
        for a, k in enumerate(run):
            if k is not None:
                start[a] = start[a] + node.attrs["start"][k] * step[a]
                step[a] *= node.attrs["step"][k]
    elif node.name == "transpose":
        run = [None if k is None else node.attrs["axes"][k] for k in run]
    elif node.name == "reshape":
        former, shape = node.output.type.shape, node.inputs[0].type.shape
        kept, wanted = [k for k, d in enumerate(former) if d != 1], [k for k, d in enumerate(shape) if d != 1]
        if [former[k] for k in kept] != [shape[k] for k in wanted]:
            return None
        place = dict(zip(kept, wanted, strict=True))
        run = [None if k is None else place.get(k) for k in run]
    else:
        return None
    return _Region(node.inputs[0], tuple(run), tuple(start), tuple(step))


def _scattered(region: _Region, node: Node) -> _Region | None:
    value, *indices = node.inputs
    places = [next((a for a, k in enumerate(region.run) if k == i), None) for i in range(len(indices))]
    axes = tuple(a for a in places if a is not None)
    if len(axes) < len(indices) or len(indices) > MOST_INDICES:
        return None
    shift = indices[0].type.ndim - len(indices)  # the axes of the value behind those of the indices
    run = tuple(None if k is None or a in axes else k + shift for a, k in enumerate(region.run))
    extents = node.output.type.shape[: len(indices)]
    return _Region(value, run, region.start, region.step, axes, extents, tuple(indices))


def _written(base: Tensor, region: _Region, image: Mapping[Var, Var]) -> Tensor:
    """The base with the region added."""
    trace = state.trace
    assert trace is not None
    given = [Tensor._traced(trace, image.get(v, v)) for v in (region.value, *region.indices)]
    value, indices = given[0], given[1:]
    depth = indices[0].ndim if indices else 0
    rest = [k for a, k in enumerate(region.run) if a not in region.axes]
    moving = [k for k in rest if k is not None]
    units = [k for k in range(depth, value.ndim) if k not in moving]  # dimensions of size 1
    sizes = [1 if k is None else value.shape[k] for k in rest]
    value = reshape(transpose(value, [*range(depth), *moving, *units]), (*value.shape[:depth], *sizes))
    attrs = {"axes": region.axes, "extents": region.extents, "start": region.start, "step": region.step}
    written: Tensor = Write.apply(base, value, *indices, **attrs, add=True)
    return written


# ---- sums that go into loops and branches ---------------------------------------------------------------------------


def _moved_inside(body: Graph) -> Graph | None:
    """The body with one sum moved into the loop or branch that made one of its operands; None where there is none."""
    makers, uses = body.definitions(), body.use_counts()
    place = {node: k for k, node in enumerate(body.nodes)}
    for node in body.nodes:
        if node.name != "add" or not _worth(node):
            continue
        for dense, made in (node.inputs, node.inputs[::-1]):
            maker = makers.get(made)
            if maker is None or maker.op not in (Cond, Scan, Sized) or uses[made] != 1:
                continue
            if dense in makers and place[makers[dense]] > place[maker]:
                continue
            k = maker.outputs.index(made)
            changed = _scan_from(maker, k, dense, makers) if maker.op is Scan else _bodies_from(maker, k, dense)
            if changed is not None:
                image = {node.output: made}
                nodes = tuple(_renamed(changed if n is maker else n, image) for n in body.nodes if n is not node)
                return body.with_nodes(nodes, tuple(image.get(v, v) for v in body.outputs))
    return None


def _renamed(node: Node, image: Mapping[Var, Var]) -> Node:
    inputs = tuple(image.get(v, v) for v in node.inputs)
    return Node(node.op, inputs, node.outputs, node.attrs, node.bodies, node.location)


def _bodies_from(node: Node, k: int, dense: Var) -> Node | None:
    """The branches with `dense` added to output `k`, if that is little to add in all of them."""
    bodies = []
    for body in node.bodies:
        makers, out = body.definitions(), body.outputs[k]
        given, total = Var(dense.type, "sum"), Var(out.type)
        if _is_zero(out, makers):
            nodes, total = body.nodes, given
        elif _is_sparse(out, makers) or (out in makers and makers[out].op in (Cond, Scan, Sized)):
            nodes = (*body.nodes, Node(Add, (given, out), (total,)))
        else:
            return None
        outputs = (*body.outputs[:k], total, *body.outputs[k + 1 :])
        bodies.append(Graph((*body.inputs, given), nodes, outputs, body.name))
    return Node(node.op, (*node.inputs, dense), node.outputs, node.attrs, tuple(bodies), node.location)


def _scan_from(node: Node, k: int, dense: Var, makers: Mapping[Var, Node]) -> Node | None:
    """The loop with a sum that starts with `dense`, if output `k` is a sum that starts with zeros."""
    (body,) = node.bodies
    if k >= node.attrs["n_carry"] or not _is_zero(node.inputs[k], makers):
        return None
    inside, uses = body.definitions(), body.use_counts()
    var = body.outputs[k]
    while var is not body.inputs[k]:
        link = inside.get(var)
        if link is None or link.name not in _LINKS or uses[var] != 1 or not link.attrs.get("add", True):
            return None
        before = [v for v in link.inputs[: 2 if link.name == "add" else 1] if _leads_to(v, body.inputs[k], inside)]
        if len(before) != 1:
            return None
        var = before[0]
    if uses.get(var, 0) != 1:
        return None
    inputs = (*node.inputs[:k], dense, *node.inputs[k + 1 :])
    return Node(node.op, inputs, node.outputs, node.attrs, node.bodies, node.location)


def _leads_to(var: Var, start: Var, makers: Mapping[Var, Node]) -> bool:
    """Whether a value is a sum that begins with `start`."""
    while var is not start:
        node = makers.get(var)
        if node is None or node.name not in _LINKS:
            return False
        later = [v for v in node.inputs[:2] if v is start or (v in makers and makers[v].name in _LINKS)]
        if len(later) != 1:
            return False
        var = later[0]
    return True


def _is_zero(var: Var, makers: Mapping[Var, Node]) -> bool:
    node = makers.get(var)
    while node is not None and node.name in ("broadcast_to", "reshape"):
        node = makers.get(node.inputs[0])
    return node is not None and node.name == "constant" and not np.any(node.attrs["value"])
