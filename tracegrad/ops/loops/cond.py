"""`cond`: one of several graphs, chosen by an index when the program runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracegrad.ir.graph import Node
from tracegrad.ops.loops.base import Body, Region, type_faults, types_of


class Cond(Region):
    """`bodies[index](operands)`, the index brought into range. Inputs: index (0-d int64), operands of every body.

    The bodies that are not chosen are not evaluated.
    """

    name = "cond"

    @staticmethod
    def check_bodies(node: Node) -> Iterator[str]:
        if not node.bodies:
            yield "a cond needs at least one body"
        if node.inputs[0].type.dtype != "int64" or node.inputs[0].type.shape:
            yield f"the index {node.inputs[0]} is not a 0-d int64"
        for body in node.bodies:
            yield from type_faults("inputs of the branch", body.inputs, types_of(node.inputs[1:]))
            yield from type_faults("results of the branch", body.outputs, types_of(node.outputs))

    @classmethod
    def run(
        cls, node: Node, inputs: Sequence[Any], bodies: Sequence[Body], sizes: Mapping[str, int]
    ) -> tuple[Any, ...]:
        index = min(max(int(inputs[0]), 0), len(bodies) - 1)
        return tuple(bodies[index](tuple(inputs[1:])))
