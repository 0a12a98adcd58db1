"""Passes inside the bodies of loops and branches."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable

from tracegrad.ir.graph import Graph, Node
from tracegrad.ops.loops import Region


def everywhere(function: Callable[[Graph], Graph]) -> Callable[[Graph], Graph]:
    """The pass that also runs on every body, innermost first; it keeps the name."""

    @functools.wraps(function)
    def run(graph: Graph) -> Graph:
        return function(in_bodies(graph, run))

    return run


def with_loops(name: str) -> Callable[[Graph], Graph]:
    """The pass of that name, in the module of that name, which has something to do where there are loops or branches.
    The first graph with one imports it."""

    def run(graph: Graph) -> Graph:
        if not any(node.bodies for node in graph.nodes):
            return graph
        made: Graph = getattr(importlib.import_module(f"tracegrad.passes.{name}"), name)(graph)
        return made

    run.__name__ = name
    return run


def in_bodies(graph: Graph, function: Callable[[Graph], Graph]) -> Graph:
    """The graph with `function` applied to the bodies of loops and branches; itself where that changes none."""
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        if node.bodies and issubclass(node.op, Region):
            bodies = tuple(map(function, node.bodies))
            if any(new is not old for new, old in zip(bodies, node.bodies, strict=True)):
                node = with_bodies(node, bodies)
                changed = True
        nodes.append(node)
    return graph.with_nodes(tuple(nodes)) if changed else graph


def with_bodies(node: Node, bodies: tuple[Graph, ...]) -> Node:
    return Node(node.op, node.inputs, node.outputs, node.attrs, bodies, node.location)
