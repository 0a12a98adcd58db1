"""Rewriting by rows: what a row is, and the driver that applies a table of them.

The driver walks the nodes once, in execution order, and builds the new graph node by node. A node's inputs are already
as simple as they get when the rows of its operation are tried; a row that fires emits the nodes of its right-hand side,
to which rows apply as well. Every right-hand side is smaller or more canonical than its left-hand side, so this ends,
and the time is linear in the number of nodes. What the new graph no longer reads is left to dead code elimination.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import TracegradError
from tracegrad.function import Operation, operation
from tracegrad.ir.graph import NO_ATTRS, Graph, Location, Node, Var
from tracegrad.ir.lowering import Elementwise
from tracegrad.ir.types import Type
from tracegrad.passes.fold import LIMIT, constant_node, constant_value, fold_node
from tracegrad.records import record

RowFunction = Callable[["Rewriter", Node], "Var | None"]
ELEMENTWISE = "elementwise"  # stands for every operation whose loop meaning is an elementwise one


@record
class Row:
    """One rewrite. `apply` gets the node and returns the value to use in place of its output, or None.

    A value whose type differs from the output's in dtype, shape or weakness is not taken, so a row need not look for
    promotion and broadcasting of what it returns; of what it emits in between it must.
    """

    name: str
    operations: tuple[str, ...]
    equation: str
    apply: RowFunction


class Table(list[Row]):
    """Rows in the order in which they are tried; its method `row` is a decorator that adds one."""

    def row(self, *operations: str, equation: str) -> Callable[[RowFunction], RowFunction]:
        def add(function: RowFunction) -> RowFunction:
            self.append(Row(function.__name__, operations, equation, function))
            return function

        return add


class Rewriter:
    """The graph being built: what rows look up and emit."""

    def __init__(self, rows: Sequence[Row], reads: Mapping[Var, int]):
        self.nodes: list[Node] = []
        self.definitions: dict[Var, Node] = {}
        self.constants: dict[Var, Any] = {}
        self._scalars: dict[Var, Any] = {}
        self._sources: dict[Var, Var] = {}
        self.fired: Counter[str] = Counter()
        self.reads: dict[Var, int] = dict(reads)
        self.location: Location | None = None
        self._rows: dict[str, list[Row]] = {}
        for row in rows:
            for name in row.operations:
                self._rows.setdefault(name, []).append(row)
        self._rows_of: dict[Any, list[Row]] = {}

    # ---- looking up ----

    def node(self, var: Var, name: str = "") -> Node | None:
        """The node that defines `var`, if it is one of that operation (any, without a name)."""
        node = self.definitions.get(var)
        return node if node is not None and (not name or node.op.name == name) else None

    def read_once(self, var: Var) -> bool:
        """Whether nothing but the node at hand reads `var`, as far as is known."""
        return self.reads.get(var, 1) <= 1

    def scalar(self, var: Var) -> Any:
        """The number that every element of `var` is, as an array scalar or Python number; None if not known."""
        return self._scalars.get(var)

    def number(self, var: Var) -> float | int | None:
        """As `scalar`, but only real numbers, as Python numbers."""
        value = self._scalars.get(var)
        if isinstance(value, np.generic):
            value = value.item()
        return value if isinstance(value, int | float) else None

    def source(self, var: Var) -> Var:
        """What `var` repeats along new or stretched axes, or gives leading axes of size 1; `var` itself elsewhere."""
        return self._sources.get(var, var)

    # ---- emitting ----

    def emit(self, name: str, *inputs: Var, **attrs: Any) -> Var:
        """A value computed by that operation, simplified in its turn. Raises what the operation's `infer` raises."""
        op: Any = operation(name)
        type = op.infer(*(v.type for v in inputs), **attrs)
        return self.add(Node(op, inputs, (Var(type),), attrs or NO_ATTRS, (), self.location))

    def constant(self, value: Any, dtype: np.dtype, weak: bool = False) -> Var:
        """A constant of that dtype: 0-d for a number, else of the array's shape."""
        array = np.asarray(value, dtype)
        node = constant_node(Var(Type(dtype, array.shape, weak)), array)
        self.append(node)
        return node.output

    def like(self, value: Var, number: Any) -> Var:
        """A weak constant, beside which `value` keeps its dtype."""
        kind = {"b": bool, "i": int, "u": int, "f": float, "c": complex}[value.type.dtype.kind]
        return self.constant(kind(number), np.dtype(kind), True)

    def add(self, node: Node) -> Var:
        """The value of a one-output node after rows and folding."""
        folded = fold_node(node, self.constants)
        if folded is not None:
            self.fired["fold"] += 1
            (node,) = folded
        found = self._rewritten(node)
        if found is not None:
            return found
        self.append(node)
        return node.output

    def append(self, node: Node) -> None:
        """The node as it is."""
        self.nodes.append(node)
        for out in node.outputs:
            self.definitions[out] = node
        name = node.op.name
        if name == "constant":
            self._note_constant(node)
        elif name == "broadcast_to":
            source = self._sources.get(node.inputs[0], node.inputs[0])
            self._sources[node.output] = source
            if source in self._scalars and source.type.shape == ():
                self._scalars[node.output] = self._scalars[source]
        elif name == "reshape":
            former, shape = node.inputs[0].type.shape, node.output.type.shape
            if len(shape) > len(former) and shape[len(shape) - len(former) :] == former:
                self._sources[node.output] = self._sources.get(node.inputs[0], node.inputs[0])

    def _note_constant(self, node: Node) -> None:
        if node.attrs["value"].size <= LIMIT:
            value = self.constants[node.output] = constant_value(node)
            if np.ndim(value) == 0:
                self._scalars[node.output] = value if node.output.type.weak else value[()]

    def _rewritten(self, node: Node) -> Var | None:
        rows = self._rows_of.get(node.op)
        if rows is None:
            rows = list(self._rows.get(node.name, ()))
            if isinstance(node.op.lower, Elementwise):
                rows += self._rows.get(ELEMENTWISE, ())
            self._rows_of[node.op] = rows
        for row in rows:
            try:
                found = row.apply(self, node)
            except TracegradError:  # the right-hand side has no meaning for these types
                continue
            if found is not None and found.type == node.output.type:
                self.fired[row.name] += 1
                return found
        return None


def rewrite(graph: Graph, rows: Sequence[Row]) -> tuple[Graph, Counter[str]]:
    """The graph after the rows, and how often each fired; the graph itself where none did."""
    rewriter = Rewriter(rows, graph.use_counts())
    image: dict[Var, Var] = {}
    for node in graph.nodes:
        if image and any(v in image for v in node.inputs):
            inputs = tuple(image.get(v, v) for v in node.inputs)
            node = Node(node.op, inputs, node.outputs, node.attrs, node.bodies, node.location)
        if len(node.outputs) != 1 or node.bodies or not issubclass(node.op, Operation):
            rewriter.append(node)
            continue
        rewriter.location = node.location
        out = node.outputs[0]
        before = len(rewriter.nodes)
        found = rewriter.add(node)
        if found is not out:
            image[out] = found
            rewriter.reads[found] = rewriter.reads.get(found, 0) + rewriter.reads.get(out, 0)
            if not found.name and any(found in new.outputs for new in rewriter.nodes[before:]):
                found.name = out.name
    if not rewriter.fired:
        return graph, rewriter.fired
    outputs = tuple(image.get(v, v) for v in graph.outputs)
    return graph.with_nodes(tuple(rewriter.nodes), outputs), rewriter.fired
