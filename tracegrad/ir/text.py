"""The textual form of graphs: printer and parser. The grammar is in docs/ir.md.

    graph rosen(%x: f64[10]) -> (%2) {
      %1: f64[9] = slice(%x) {start=(1,), size=(9,), step=(1,)}   # rosen.py:3
      %2: f64[] = sum(%1) {axis=(0,), keepdims=False, dtype=f64}   # rosen.py:3
    }

Parsing what was printed gives an equal graph (ir/identity.py), and printing that gives the same text but for the
comments. Values get the names they have as hints, made unique; those without one are numbered.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tracegrad.ir.graph import NO_ATTRS, Graph, Node, Var
from tracegrad.ir.literals import NAME, STRING, TYPE, Scanner, compiled, format_value
from tracegrad.ir.types import parse_type

_INDENT = "  "
_VAR = r"%(\w+)"

Line = tuple[str, "Node | Graph | None"]


# ---- printing ----


def print_graph(graph: Graph, environment: dict[str, Any] | None = None, locations: bool = True) -> str:
    """The graph as text. `environment` receives what has no text (large arrays, functions), for `parse_graph`."""
    lines = print_lines(graph, {} if environment is None else environment, locations)
    return "\n".join(text for text, _ in lines) + "\n"


def print_lines(graph: Graph, environment: dict[str, Any], locations: bool = True, indent: str = "") -> Iterator[Line]:
    """The lines of the text, each with the node it defines, or the graph of which it is the first line."""
    names = _Names(graph)
    inputs = ", ".join(f"{names[v]}: {v.type}" for v in graph.inputs)
    outputs = ", ".join(names[v] for v in graph.outputs)
    title = graph.name if compiled(NAME).fullmatch(graph.name) else repr(graph.name)
    yield f"{indent}graph {title}({inputs}) -> ({outputs}) {{", graph
    for node in graph.nodes:
        results = ", ".join(f"{names[v]}: {v.type}" for v in node.outputs)
        text = f"{indent}{_INDENT}{results or '()'} = {node.name}({', '.join(names[v] for v in node.inputs)})"
        if node.attrs:
            text += " {" + ", ".join(f"{k}={format_value(v, environment)}" for k, v in node.attrs.items()) + "}"
        if node.bodies:
            text += " with"
        if locations and node.location is not None:
            text += f"   # {os.path.basename(node.location.file)}:{node.location.line}"
        yield text, node
        for body in node.bodies:
            yield from print_lines(body, environment, locations, indent + 2 * _INDENT)
    yield indent + "}", None


class _Names:
    """Unique names, given in the order of definition; a value that nobody defines is marked with a question mark."""

    def __init__(self, graph: Graph):
        self.names: dict[Var, str] = {}
        self.taken: set[str] = set()
        self.repeats: dict[str, int] = {}
        self.numbers = itertools.count()
        for var in itertools.chain(graph.inputs, (v for node in graph.nodes for v in node.outputs)):
            self.names[var] = "%" + self._unique(var)

    def __getitem__(self, var: Var) -> str:
        name = self.names.get(var)
        if name is None:
            name = self.names[var] = "%" + self._unique(var) + "?"
        return name

    def _unique(self, var: Var) -> str:
        stem = re.sub(r"\W", "_", var.name) if var.name else ""
        if not stem or stem.isdigit():
            return str(next(self.numbers))
        name = stem
        while name in self.taken:
            self.repeats[stem] = number = self.repeats.get(stem, 0) + 1
            name = f"{stem}_{number}"
        self.taken.add(name)
        return name


# ---- parsing ----


def parse_graph(
    text: str, environment: Mapping[str, Any] | None = None, operations: Mapping[str, Any] | None = None
) -> Graph:
    """The graph that prints as `text`. Raises ValueError, with the line, on anything else.

    `environment` gives the values written as `@name`; `operations` the Functions that are not in the registry.
    """
    scanner = Scanner(text, environment or {})
    graph = _graph(scanner, _Operations(operations or {}))
    if scanner.position < len(text):
        raise scanner.error("expected the end of the text")
    return graph


class _Operations:
    def __init__(self, given: Mapping[str, Any]):
        import tracegrad.ops  # noqa: F401 - fills the registry
        from tracegrad.function import registry

        self.given, self.registry = given, registry

    def find(self, scanner: Scanner, name: str) -> Any:
        if name in self.given:
            return self.given[name]
        if name not in self.registry:
            raise scanner.error(f"no operation is called {name}; give user Functions in `operations`")
        return self.registry[name]


def _graph(scanner: Scanner, operations: _Operations) -> Graph:
    if not scanner.accept("graph "):
        raise scanner.error("expected 'graph'")
    quoted = compiled(STRING).match(scanner.text, scanner.position)
    name = scanner.value() if quoted else _take(scanner, NAME, "a name").group()
    values: dict[str, Var] = {}
    scanner.expect("(")
    inputs = _definitions(scanner, values, ")")
    scanner.expect("->")
    scanner.expect("(")
    results = _separated(scanner, ")")
    outputs_at = scanner.position
    scanner.expect("{")
    nodes = []
    while not scanner.accept("}"):
        nodes.append(_node(scanner, values, operations))
    end = scanner.position
    scanner.position = outputs_at
    outputs = tuple(_known(scanner, values, r) for r in results)
    scanner.position = end
    return Graph(inputs, tuple(nodes), outputs, name)


def _node(scanner: Scanner, values: dict[str, Var], operations: _Operations) -> Node:
    defined: dict[str, Var] = {}
    if scanner.accept("()"):
        outputs: tuple[Var, ...] = ()
        scanner.expect("=")
    else:
        outputs = _definitions(scanner, defined, "=")
    op = operations.find(scanner, _take(scanner, NAME, "the name of an operation").group())
    scanner.expect("(")
    inputs = tuple(_known(scanner, values, name) for name in _separated(scanner, ")"))
    attrs: dict[str, Any] = {}
    if scanner.accept("{"):
        while not scanner.accept("}"):
            if attrs:
                scanner.expect(",")
            key = _take(scanner, NAME, "the name of an attribute").group()
            scanner.expect("=")
            attrs[key] = scanner.value()
    bodies = []
    if scanner.accept("with"):
        while scanner.text.startswith("graph ", scanner.position):
            bodies.append(_graph(scanner, operations))
    for name, var in defined.items():
        if name in values:
            raise scanner.error(f"%{name} is defined twice")
        values[name] = var
    return Node(op, inputs, outputs, attrs or NO_ATTRS, tuple(bodies))


def _definitions(scanner: Scanner, values: dict[str, Var], end: str) -> tuple[Var, ...]:
    """`%a: f64[3], %b: i64[]` up to `end`, as new values."""
    found: list[Var] = []
    while not scanner.accept(end):
        if found:
            scanner.expect(",")
        name = _take(scanner, _VAR, "a value such as %x").group(1)
        scanner.expect(":")
        type = _type(_take(scanner, TYPE, "a type such as f64[3]").group())
        if name in values:
            raise scanner.error(f"%{name} is defined twice")
        values[name] = Var(type, "" if name.isdigit() else name)
        found.append(values[name])
    return tuple(found)


_type = functools.lru_cache(maxsize=4096)(parse_type)


def _separated(scanner: Scanner, end: str) -> list[str]:
    names: list[str] = []
    while not scanner.accept(end):
        if names:
            scanner.expect(",")
        names.append(_take(scanner, _VAR, "a value such as %x").group(1))
    return names


def _known(scanner: Scanner, values: dict[str, Var], name: str) -> Var:
    if name not in values:
        raise scanner.error(f"%{name} is not defined before its use")
    return values[name]


def _take(scanner: Scanner, pattern: str, what: str) -> re.Match[str]:
    match = scanner.take(pattern)
    if match is None:
        raise scanner.error(f"expected {what}")
    return match
