"""Graphs applied to every row of a batch, as one node: row by row, or all rows at once by a batched body.

Derivatives of such a node are batched derivatives of its graph, so they exist wherever those of the graph do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import AutogradError
from tracegrad.function import Operation
from tracegrad.ir.graph import Graph, Node
from tracegrad.ir.interpret import NO_SIZES, interpret
from tracegrad.ir.types import Type
from tracegrad.records import record
from tracegrad.state import state
from tracegrad.tensor import Tensor


@record(eq=False)
class RowMap:
    """A graph, the inputs that have rows, and how many rows there are. Called, it runs row by row."""

    graph: Graph
    flags: tuple[bool, ...]
    size: int

    @property
    def output_types(self) -> tuple[Type, ...]:
        return tuple(Type(v.type.dtype, (self.size, *v.type.shape)) for v in self.graph.outputs)

    def __call__(self, *arrays: Any) -> tuple[np.ndarray, ...]:
        outputs = tuple(np.empty(t.shape, t.dtype) for t in self.output_types)  # type: ignore[type-var]
        weak = [v.type.weak for v in self.graph.inputs]
        fixed = [np.asarray(a).item() if w else a for a, w in zip(arrays, weak, strict=True)]
        for i in range(self.size):
            row = [np.asarray(a[i]) if flag else a for a, flag in zip(fixed, self.flags, strict=True)]
            for out, result in zip(outputs, interpret(self.graph, row), strict=True):
                out[i] = result
        return outputs

    def __repr__(self) -> str:
        return f"<{self.size} rows of {self.graph.name}>"


class MapRows(Operation):
    """A graph run row by row in Python, for what has no batching rule."""

    name = "map_rows"

    @staticmethod
    def infer(*types: Type, rows: RowMap) -> tuple[Type, ...]:
        return rows.output_types

    @staticmethod
    def forward(*arrays: np.ndarray, rows: RowMap) -> tuple[np.ndarray, ...]:
        return rows(*arrays)

    @staticmethod
    def backward_symbolic(node: Node, inputs: Any, outputs: Any, needs: tuple[bool, ...], cotangents: Any) -> Any:
        return backward_of_rows(node.attrs["rows"], inputs, needs, cotangents)

    @staticmethod
    def forward_symbolic(node: Node, inputs: Any, outputs: Any, tangents: Any) -> Any:
        return tangents_of_rows(node.attrs["rows"], inputs, tangents)


class MapImpureRows(MapRows):
    """The same for a graph with calls into Python, which must not be dropped or merged."""

    name = "map_impure_rows"
    pure = False


class BatchedCall(Operation):
    """A user's Function with a generated batching rule: the body is the batched body of its forward.

    Its derivative is the batched backward of the Function, not the derivative of the body.
    """

    name = "batched_call"
    inlined = True

    @staticmethod
    def infer(*types: Type, rows: RowMap) -> Type:
        raise AutogradError("the types of a call are those of its body")

    @staticmethod
    def check_bodies(node: Node) -> Any:
        """Faults of the node: its types must be the body's."""
        (body,) = node.bodies
        for what, mine, theirs in (("inputs", node.inputs, body.inputs), ("outputs", node.outputs, body.outputs)):
            if [v.type for v in mine] != [v.type for v in theirs]:
                yield f"the body's {what} have other types than the node's"

    @staticmethod
    def run_bodies(node: Node, inputs: Sequence[Any], sizes: Mapping[str, int] = NO_SIZES) -> tuple[Any, ...]:
        return interpret(node.bodies[0], inputs, sizes)

    backward_symbolic = MapRows.backward_symbolic
    forward_symbolic = MapRows.forward_symbolic


def map_rows(graph: Graph, tensors: Sequence[Tensor], flags: Sequence[bool], size: Any) -> tuple[Tensor, ...]:
    """Record the graph run row by row."""
    from tracegrad.passes.purity import is_pure

    trace = state.trace
    assert trace is not None
    rows = RowMap(graph, tuple(flags), _fixed(size))
    op = MapRows if all(map(is_pure, graph.nodes)) else MapImpureRows
    inputs = tuple(t._var for t in tensors)
    return trace.emit(op, inputs, rows.output_types, {"rows": rows}, (), trace.location)


def _fixed(size: Any) -> int:
    if isinstance(size, int):
        return size
    raise AutogradError(f"batching over {size} rows: their number must be fixed", fix="compile for fixed sizes")


def batched_call(graph: Graph, tensors: Sequence[Tensor], flags: Sequence[bool], size: Any) -> tuple[Tensor, ...]:
    """Record a call of a user's Function for all rows at once; `graph` is that one call."""
    from tracegrad.passes.batching import batch

    trace = state.trace
    assert trace is not None
    body, has_rows = batch(graph.nodes[0].bodies[0], size, flags)
    rows = RowMap(graph, tuple(flags), _fixed(size))
    body = _all_rows(body, has_rows, rows)
    inputs = tuple(t._var for t in tensors)
    return trace.emit(BatchedCall, inputs, rows.output_types, {"rows": rows}, (body,), trace.location)


def _all_rows(body: Graph, has_rows: Sequence[bool], rows: RowMap) -> Graph:
    """The body with outputs that are the same for all rows repeated."""
    if all(has_rows):
        return body
    from tracegrad.ir.graph import Var
    from tracegrad.ops.shape import BroadcastTo

    nodes, outputs = list(body.nodes), []
    for var, flag, wanted in zip(body.outputs, has_rows, rows.output_types, strict=True):
        if not flag:
            repeated = Var(wanted)
            nodes.append(Node(BroadcastTo, (var,), (repeated,), {"shape": wanted.shape}))
            var = repeated
        outputs.append(var)
    return Graph(body.inputs, tuple(nodes), tuple(outputs), body.name)


def backward_of_rows(
    rows: RowMap, inputs: Sequence[Tensor], needs: Sequence[bool], cotangents: Sequence[Tensor | None]
) -> tuple[Any, ...]:
    """Cotangents of the node's inputs: the adjoint of the graph for all rows, summed where an input has none."""
    from tracegrad.passes.adjoint import adjoint
    from tracegrad.passes.batching import splice_batched

    wrt = [i for i, needed in enumerate(needs) if needed]
    seeds = [i for i, g in enumerate(cotangents) if g is not None]
    joint, depends = adjoint(rows.graph, wrt, seeds)
    pulled = Graph(joint.inputs, joint.nodes, joint.outputs[len(rows.graph.outputs) :], joint.name)
    given = [cotangents[i] for i in seeds]
    found, has_rows = _spliced(splice_batched, pulled, [*inputs, *given], [*rows.flags, *(True for _ in given)], rows)
    grads: list[Any] = [None] * len(inputs)
    for position, g, in_rows, reaches in zip(wrt, found, has_rows, depends, strict=True):
        if not reaches:
            continue
        if rows.flags[position]:
            grads[position] = g if in_rows else g + np.zeros((rows.size, *(1,) * g.ndim), g.dtype)
        else:
            grads[position] = g.sum(axis=0) if in_rows else g * rows.size
    return tuple(grads)


def _spliced(splice_batched: Any, graph: Graph, tensors: Any, flags: Any, rows: RowMap) -> Any:
    from tracegrad.passes.dce import dce

    return splice_batched(state.trace, dce(graph), tensors, flags, rows.size)


def tangents_of_rows(rows: RowMap, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Tangents of the node's outputs: those of the graph for all rows."""
    from tracegrad.passes.batching import splice_batched
    from tracegrad.passes.tangent import push_forward

    wrt = [i for i, t in enumerate(tangents) if t is not None]
    pushed, depends = push_forward(rows.graph, wrt)
    n_outputs = len(rows.graph.outputs)
    graph = Graph(pushed.inputs, pushed.nodes, pushed.outputs[n_outputs:], pushed.name)
    flags = [*rows.flags, *(rows.flags[i] for i in wrt)]
    found, has_rows = _spliced(splice_batched, graph, [*inputs, *(tangents[i] for i in wrt)], flags, rows)
    results: list[Tensor | None] = []
    pairs = iter(zip(found, has_rows, depends, strict=True))
    for var in rows.graph.outputs:
        if not var.type.inexact:
            results.append(None)
            continue
        tangent, in_rows, reaches = next(pairs)
        if reaches and not in_rows:
            tangent = tangent + np.zeros((rows.size, *(1,) * tangent.ndim), tangent.dtype)
        results.append(tangent if reaches else None)
    return results
