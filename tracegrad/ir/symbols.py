"""Which symbols a graph has, and the graph with numbers in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tracegrad.ir.dims import Dim, substitute, symbol
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.types import Type


def dims_in(value: Any) -> set[Dim]:
    """The symbolic dimensions in an attribute."""
    if isinstance(value, Dim):
        return {Dim(value.terms)}
    return set().union(*map(dims_in, value)) if type(value) is tuple else set()


def dims_of(graphs: Iterable[Any]) -> dict[Dim, None]:
    """The symbolic dimensions of all values of the graphs, bodies included."""
    found: dict[Dim, None] = {}
    for graph in graphs:
        for var in (*graph.inputs, *(out for node in graph.nodes for out in node.outputs)):
            found.update(dict.fromkeys(d for d in var.type.shape if isinstance(d, Dim)))
        for node in graph.nodes:
            found.update(dims_of(node.bodies))
    return found


def symbols_used(graph: Graph) -> set[str]:
    """The symbols in the types and attributes of a graph, but for those that stand for computed numbers of steps."""
    found, inner = set(), set()
    for node in graph.nodes:
        for body in node.bodies:
            found |= symbols_used(body)
        dims = dims_in(tuple(node.attrs.values())) | dims_in(tuple(v.type.shape for v in node.outputs))
        found |= {name for dim in dims for name in dim.symbols()}
        if "symbol" in node.attrs:
            inner.add(node.attrs["symbol"])
    return found - inner


def symbols_given(graph: Graph) -> set[str]:
    """The symbols that are sizes of the graph's inputs."""
    dims = {d for v in graph.inputs for d in v.type.shape if isinstance(d, Dim)}
    return {name for dim in dims for name in dim.symbols() if dim == symbol(name)}


def with_sizes(graph: Graph, values: Mapping[str, int]) -> Graph:
    """The graph for these sizes alone."""
    env: dict[Var, Var] = {}

    def fixed(value: Any) -> Any:
        if isinstance(value, Dim):
            return substitute(value, values)
        return tuple(map(fixed, value)) if type(value) is tuple else value

    def renewed(var: Var) -> Var:
        if var not in env:
            env[var] = Var(Type(var.type.dtype, fixed(var.type.shape), var.type.weak), var.name)
        return env[var]

    nodes = []
    for node in graph.nodes:
        attrs = {k: fixed(v) for k, v in node.attrs.items()}
        bodies = tuple(with_sizes(body, values) for body in node.bodies)
        inputs, outputs = tuple(map(renewed, node.inputs)), tuple(map(renewed, node.outputs))
        nodes.append(Node(node.op, inputs, outputs, attrs, bodies, node.location))
    return Graph(tuple(map(renewed, graph.inputs)), tuple(nodes), tuple(map(renewed, graph.outputs)), graph.name)
