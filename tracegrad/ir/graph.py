"""Graphs: frozen straight-line programs whose nodes are applications of operations.

A value is a `Var`; it is defined once, by the graph's inputs or by one node. A node may own body graphs (a user
Function's forward, loops and branches); a body sees only its own inputs, so a graph is closed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, NamedTuple

from tracegrad.ir.types import Type
from tracegrad.records import record

NO_ATTRS: Mapping[str, Any] = MappingProxyType({})


def no_attrs() -> Mapping[str, Any]:
    """The empty attributes, as a default of dataclass fields."""
    return NO_ATTRS


class Var:
    """One value of a graph. Identity is the object; `name` is only a hint for printing.

    `number` is for the trace that records it, which counts its values; -1 where none does.
    """

    __slots__ = ("name", "number", "type")

    def __init__(self, type: Type, name: str = ""):
        self.type = type
        self.name = name
        self.number = -1

    def __repr__(self) -> str:
        return f"%{self.name or hex(id(self))[-5:]}: {self.type}"


@record
class Location:
    """Where in the user's code a value was computed. Never takes part in comparison or hashing of nodes."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class _Application(NamedTuple):
    op: Any
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    attrs: Mapping[str, Any] = NO_ATTRS
    bodies: tuple[Graph, ...] = ()
    location: Location | None = None


class Node(_Application):
    """`outputs = op(*inputs, **attrs)`. `op` is the Function class; attrs are static, hashable values.

    A tuple, because a recording makes one per operation and nothing is made faster; it equals itself alone.
    """

    __slots__ = ()
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__

    @property
    def name(self) -> str:
        return str(self.op.name)

    @property
    def output(self) -> Var:
        """The only output. Raises ValueError where there are several."""
        (out,) = self.outputs
        return out


@record(eq=False)
class Graph:
    """Inputs, nodes in execution order, outputs. An output may be an input, or stand twice."""

    inputs: tuple[Var, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Var, ...]
    name: str = field(default="graph")

    def with_nodes(self, nodes: tuple[Node, ...], outputs: tuple[Var, ...] | None = None) -> Graph:
        return Graph(self.inputs, nodes, self.outputs if outputs is None else outputs, self.name)

    def definitions(self) -> dict[Var, Node]:
        """The node that defines each value; inputs are absent."""
        return {out: node for node in self.nodes for out in node.outputs}

    def use_counts(self) -> dict[Var, int]:
        """How often each value is read, by nodes and as an output."""
        counts: dict[Var, int] = {}
        for var in self._reads():
            counts[var] = counts.get(var, 0) + 1
        return counts

    def all_nodes(self) -> Iterator[Node]:
        """The nodes, and those of their bodies."""
        for node in self.nodes:
            yield node
            for body in node.bodies:
                yield from body.all_nodes()

    def _reads(self) -> Iterator[Var]:
        for node in self.nodes:
            yield from node.inputs
        yield from self.outputs

    def __str__(self) -> str:
        from tracegrad.ir.text import print_graph

        return print_graph(self)
