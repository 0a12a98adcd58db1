"""Loops and branches of the graph: calls that own the scheduled programs of their bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracegrad.ir.graph import Node
from tracegrad.schedule.loops import Region
from tracegrad.schedule.plain import plain_products
from tracegrad.schedule.statements import CallStatement

if TYPE_CHECKING:
    from tracegrad.schedule.build import Builder


def region_call(builder: Builder, node: Node) -> CallStatement:
    """The call for a node with bodies; each body is scheduled apart, on buffers that hold one step."""
    from tracegrad.schedule.program import schedule_body

    inputs = tuple(builder.materialised(v) for v in node.inputs)
    bodies = tuple(map(schedule_body, node.bodies))
    region = Region(node, bodies)
    if node.name == "scan" and (found := plain_products(node.bodies[0], node.attrs["n_carry"])) is not None:
        graph, suspects = found
        region = Region(node, bodies, schedule_body(graph), suspects)
    return CallStatement(node.name, inputs, node.outputs, node, {"region": region})
