"""The verifier of graphs. What it holds to be true of every graph:

 1. Inputs are distinct values; every value is defined once, by the inputs or by one node.
 2. A node reads only values that are defined before it, in its own graph; so do the outputs.
 3. A node's `op` is a Function with a name; its attributes are named by strings and hold static values: hashable ones
    or ndarrays, never a Tensor or a value of a graph.
 4. The outputs of a built-in operation have exactly the types its `infer` gives for the inputs and attributes.
 5. The dimensions of a type are non-negative integers or Dims; every symbol in them is one of the inputs' dimensions
    (or of the inputs of a graph around this one), so that a call knows its value, or bound by the node that owns the
    graph (`bound_symbols`).
 6. Only 0-d values are weak.
 7. Bodies are graphs for which all this holds too; they see their own inputs alone. Where a Function has one body and
    no other rule (`check_bodies`), the body's inputs and outputs have the types of the node's.

All faults are reported at once, each under its line of the printed graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tracegrad.errors import TracegradError, VerificationError
from tracegrad.function import Function, Operation
from tracegrad.ir.dims import Dim, symbols
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.text import print_lines
from tracegrad.ir.types import NAME_OF_DTYPE, Type
from tracegrad.tensor import Tensor

Owner = Node | Graph
Fault = tuple[Owner, str]


def verify(graph: Graph, stage: str = "") -> None:
    """Raises VerificationError that shows the graph with all faults if there are any; `stage` says who made it."""
    found = faults(graph)
    if not found:
        return
    by_owner: dict[int, list[str]] = {}
    for owner, message in found:
        by_owner.setdefault(id(owner), []).append(message)
    lines = []
    for text, owner_of_line in print_lines(graph, {}):
        lines.append(text)
        indent = " " * (len(text) - len(text.lstrip()))
        lines += [f"{indent}^ {message}" for message in by_owner.pop(id(owner_of_line), ())]
    count = f"{len(found)} faults" if len(found) > 1 else "a fault"
    raise VerificationError(f"{count} in the graph{' after ' + stage if stage else ''}:\n" + "\n".join(lines))


def faults(graph: Graph) -> list[Fault]:
    """All faults, each with the node or graph in whose line it is."""
    return list(_graph_faults(graph, frozenset()))


def _graph_faults(graph: Graph, outer_symbols: frozenset[str]) -> Iterator[Fault]:
    known = set(outer_symbols)
    for var in graph.inputs:
        for dim in var.type.shape:
            known |= symbols(dim)
    bound = frozenset(known)
    defined: set[Var] = set()
    for var in graph.inputs:
        if var in defined:
            yield graph, f"the input {var} stands twice"
        defined.add(var)
        for message in _type_faults(var, bound):
            yield graph, message
    for node in graph.nodes:
        for var in node.inputs:
            if var not in defined:
                yield node, f"reads {var}, which is not defined before it"
        for var in node.outputs:
            if var in defined:
                yield node, f"defines {var} a second time"
            defined.add(var)
            for message in _type_faults(var, bound):
                yield node, message
        for message in _node_faults(node):
            yield node, message
        inner = bound | node.op.bound_symbols(node) if hasattr(node.op, "bound_symbols") else bound
        for body in node.bodies:
            yield from _graph_faults(body, inner)
    for var in graph.outputs:
        if var not in defined:
            yield graph, f"returns {var}, which is not defined"


def _type_faults(var: Var, bound: frozenset[str]) -> Iterator[str]:
    type = var.type
    if type.dtype not in NAME_OF_DTYPE:
        yield f"{type.dtype} is not a dtype of the IR"
        return
    if type.weak and type.shape:
        yield f"{var} is weak but not 0-d"
    for dim in type.shape:
        if isinstance(dim, Dim):
            for name in sorted(symbols(dim) - bound):
                yield f"{var} has the symbol {name}, which no input has"
        elif dim.__class__ is not int or dim < 0:
            yield f"{var} has the dimension {dim!r}"


def _node_faults(node: Node) -> Iterator[str]:
    if not (isinstance(node.op, type) and issubclass(node.op, Function)):
        yield f"{node.op!r} is not a Function"
        return
    yield from _attr_faults(node.attrs)
    if issubclass(node.op, Operation) and not hasattr(node.op, "check_bodies"):
        yield from _inference_faults(node)
    yield from _body_faults(node)


def _attr_faults(attrs: Mapping[Any, Any]) -> Iterator[str]:
    for name, value in attrs.items():
        if not isinstance(name, str):
            yield f"the attribute name {name!r} is not a string"
        yield from (f"the attribute {name} {problem}" for problem in _value_faults(value))


def _value_faults(value: Any) -> Iterator[str]:
    if isinstance(value, tuple):
        for item in value:
            yield from _value_faults(item)
    elif isinstance(value, (Var, Tensor)):
        yield f"holds {value!r}: values are inputs, not attributes"
    elif not isinstance(value, np.ndarray | slice):
        try:
            hash(value)
        except TypeError:
            yield f"holds {value!r}, which is not hashable"


def _inference_faults(node: Node) -> Iterator[str]:
    try:
        inferred = node.op.infer(*(v.type for v in node.inputs), **node.attrs)
    except (TracegradError, ValueError, TypeError, IndexError, KeyError) as error:
        message = error.message if isinstance(error, TracegradError) else str(error)
        yield f"{node.name} does not take these inputs and attributes: {message}"
        return
    types: tuple[Type, ...] = inferred if type(inferred) is tuple else (inferred,)
    if len(types) != len(node.outputs):
        yield f"{node.name} has {len(types)} outputs, not {len(node.outputs)}"
        return
    for var, expected in zip(node.outputs, types, strict=True):
        if var.type != expected:
            yield f"{var} should have the type {expected}"


def _body_faults(node: Node) -> Iterator[str]:
    if hasattr(node.op, "check_bodies"):
        yield from node.op.check_bodies(node)
    elif len(node.bodies) == 1:
        body = node.bodies[0]
        for what, mine, theirs in (("inputs", node.inputs, body.inputs), ("outputs", node.outputs, body.outputs)):
            if [v.type for v in mine] != [v.type for v in theirs]:
                given = ", ".join(str(v.type) for v in theirs)
                yield f"the body's {what} have the types ({given})"
