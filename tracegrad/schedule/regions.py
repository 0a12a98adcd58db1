"""Loops and branches of the graph: calls that own the scheduled programs of their bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.schedule.independent import independent_steps
from tracegrad.schedule.inplace import large
from tracegrad.schedule.live import REGIONS
from tracegrad.schedule.loops import Region, in_place
from tracegrad.schedule.plain import plain_products
from tracegrad.schedule.scattered import few
from tracegrad.schedule.statements import CallStatement

if TYPE_CHECKING:
    from tracegrad.schedule.build import Builder


def region_call(builder: Builder, node: Node) -> CallStatement:
    """The call for a node with bodies; each body is scheduled apart, on buffers that hold one step."""
    inputs = tuple(builder.materialised(v) for v in node.inputs)
    return CallStatement(node.name, inputs, node.outputs, node, {"region": scheduled_region(node)})


def scheduled_region(node: Node) -> Region:
    """The programs of the bodies. They may overwrite an input if all of them put the same output into its memory."""
    from tracegrad.schedule.program import schedule_body

    pairs = replaced_inputs(node)
    while True:
        bodies = tuple(schedule_body(graph, pairs if _writes(node, k) else {}) for k, graph in enumerate(node.bodies))
        writers = [body for k, body in enumerate(bodies) if _writes(node, k)]
        kept = {i: o for i, o in pairs.items() if all(in_place(body, i, o) for body in writers)}
        if kept == pairs:
            break
        pairs = kept
    shift = len(node.inputs) - len(node.bodies[-1].inputs) if node.name in ("cond", "sized") else 0
    large_pairs = tuple((i + shift, o) for i, o in pairs.items() if large(node.outputs[o].type))
    if node.name == "scan" and not large_pairs:
        if (found := plain_products(node.bodies[0], node.attrs["n_carry"])) is not None:
            graph, suspects = found
            plain = schedule_body(graph, pairs)
            if all(in_place(plain, i, o) for i, o in pairs.items()):
                return Region(node, bodies, plain, suspects, (), independent_steps(node, bodies))
    return Region(node, bodies, in_place=large_pairs, independent=independent_steps(node, bodies))


def _writes(node: Node, position: int) -> bool:
    """Whether a body has the results of the node; the condition of a `while` has not."""
    return node.name != "while" or position == 1


def replaced_inputs(node: Node) -> dict[int, int]:
    """The inputs of the bodies that only differ from one output in what has been written to them, with that output."""
    bodies = [graph for k, graph in enumerate(node.bodies) if _writes(node, k)]
    count = node.attrs["n_carry"] if node.name in ("scan", "while") else len(bodies[0].outputs)
    found: dict[int, int] = {}
    for out in range(count):
        origins = {_origin(graph, graph.outputs[out]) for graph in bodies}
        if len(origins) == 1 and (origin := origins.pop()) is not None and origin not in found:
            if any(graph.inputs[origin].type.shape != graph.outputs[out].type.shape for graph in bodies):
                continue
            if node.name in ("cond", "sized") or origin == out:
                found[origin] = out
    return found


def _origin(graph: Graph, var: Var) -> int | None:
    """The input that a value is after writes to some of its elements, which may see it in another shape."""
    definitions = graph.definitions()
    while (node := definitions.get(var)) is not None:
        if node.name in ("write", "reshape") or (node.name == "slice_update" and large(node.output.type) and few(node)):
            var = node.inputs[0]
        elif node.name in REGIONS:
            back = {node.outputs[o]: i for i, o in replaced_inputs(node).items()}
            if var not in back:
                return None
            shift = len(node.inputs) - len(node.bodies[-1].inputs) if node.name in ("cond", "sized") else 0
            var = node.inputs[back[var] + shift]
        else:
            return None
    return graph.inputs.index(var)
