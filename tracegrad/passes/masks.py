"""What a mask selects, computed for all elements: `x[mask]` has as many elements as there are in each call.

A recording in which the number of elements is a symbol (`ir.sizes.Sizes.counts`) is rewritten: values of the selected
elements become values of all of them, at the same positions, and what joins elements (sums, extremes, products of
matrices) joins the selected alone. The result has no symbol for a count. Where that cannot be, because the order of the
elements matters or they are returned, the recording is one for each count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import UnsupportedError
from tracegrad.ir.dims import Dim, DimLike, product, substitute, symbol
from tracegrad.ir.graph import Graph, Node, Var
from tracegrad.ir.symbols import dims_in
from tracegrad.ir.types import Type
from tracegrad.ops.comparison import not_equal
from tracegrad.ops.linalg import MatMul
from tracegrad.ops.reduction import sum as tensor_sum
from tracegrad.ops.select import where
from tracegrad.ops.shape import reshape
from tracegrad.passes.adjoint import constants_met
from tracegrad.passes.batching_rules import RULES, elementwise
from tracegrad.state import setting
from tracegrad.tensor import Tensor
from tracegrad.trace.tracer import Trace


def without_counts(graph: Graph, counts: set[str]) -> tuple[Graph, int]:
    """The graph without the symbols `counts`, and how many values were put behind its outputs that have to be true.

    Raises UnsupportedError where there is none.
    """
    whole = _Whole(graph, counts)
    with setting(trace=whole.trace, grad_enabled=True):
        for node in graph.nodes:
            whole.add(node)
    if any(whole.counted(v.type.shape) for v in (*graph.inputs, *graph.outputs)):
        raise _order_matters("a result or an input")
    nodes = (*constants_met(whole.trace), *whole.trace.nodes)
    outputs = tuple(whole.values[v] for v in graph.outputs) + tuple(whole.held)
    return Graph(graph.inputs, nodes, outputs, graph.name), len(whole.held)


def _order_matters(what: str) -> UnsupportedError:
    return UnsupportedError(f"{what} depends on how many elements a mask selects, or on their order")


class _Whole:
    """The graph that is made. `masks` and `sizes` are by symbol: what is selected, and of how many."""

    def __init__(self, graph: Graph, counts: set[str]):
        self.trace, self.counts = Trace(graph.name), counts
        self.trace.inputs = list(graph.inputs)
        self.values: dict[Var, Var] = {v: v for v in graph.inputs}
        self.masks: dict[str, Tensor] = {}
        self.sizes: dict[str, DimLike] = {}
        self.positions: dict[Var, str] = {}  # the results of nonzero
        self.held: list[Var] = []

    def counted(self, attribute: Any) -> list[str]:
        """The counts in a shape or another attribute."""
        return sorted({name for dim in dims_in(attribute) for name in dim.symbols()} & self.counts)

    def add(self, node: Node) -> None:
        """Append what stands for a node."""
        types = tuple(v.type.shape for v in (*node.inputs, *node.outputs))
        names = self.counted((types, tuple(node.attrs.values())))
        if not names:
            self._keep(node)
            return
        rule = _RULES.get(node.name) or (_elementwise if RULES.get(node.name) is elementwise else None)
        if len(names) > 1 or node.bodies or rule is None:
            raise _order_matters(node.name)
        tensors = tuple(Tensor._traced(self.trace, self.values[v]) for v in node.inputs)
        self.trace.location = node.location
        result = rule(self, node, tensors, names[0])
        self.trace.location = None
        (out,) = node.outputs
        var = self.trace.lift(result)
        if var.type != Type(out.type.dtype, self.shape(out.type.shape), out.type.weak):
            raise _order_matters(node.name)
        self.values[out] = var

    def _keep(self, node: Node) -> None:
        if any(self.counted(v.type.shape) for body in node.bodies for n in body.nodes for v in n.outputs):
            raise _order_matters(node.name)
        inputs = tuple(self.values[v] for v in node.inputs)
        self.trace._record(Node(node.op, inputs, node.outputs, node.attrs, node.bodies, node.location))
        self.values.update((out, out) for out in node.outputs)

    def shape(self, shape: Sequence[DimLike]) -> tuple[DimLike, ...]:
        """A shape with all elements where some were selected."""
        if any(d != symbol(n) for d in shape if isinstance(d, Dim) for n in self.counted(d)):
            raise _order_matters("a size")
        return tuple(substitute(d, self.sizes) for d in shape)

    def axis(self, var: Var, name: str) -> int | None:
        """The axis of the elements; None where a value has none."""
        axes = [a for a, d in enumerate(var.type.shape) if self.counted(d)]
        if len(axes) > 1:
            raise _order_matters("a table of pairs of elements")
        return axes[0] if axes else None

    def chosen(self, x: Tensor, axis: int, name: str, other: Any) -> Tensor:
        """x where elements along the axis are selected, `other` elsewhere."""
        mask = reshape(self.masks[name], tuple(d if a == axis else 1 for a, d in enumerate(x.shape)))
        return where(mask, x, np.asarray(other, x.dtype)[()])  # type: ignore[no-any-return]


Rule = Callable[[_Whole, Node, tuple[Tensor, ...], str], Any]


def _elementwise(whole: _Whole, node: Node, tensors: tuple[Tensor, ...], name: str) -> Any:
    return elementwise(node, tensors, (False,) * len(tensors), 0)[0]


def _nonzero(whole: _Whole, node: Node, tensors: tuple[Tensor, ...], name: str) -> Any:
    from tracegrad.ops.operands import positions

    (mask,) = tensors
    whole.sizes[name] = size = product(mask.shape)
    whole.masks[name] = reshape(mask, (size,))
    whole.positions[node.output] = name
    return positions(size)


def _gather(whole: _Whole, node: Node, tensors: tuple[Tensor, ...], name: str) -> Any:
    if len(tensors) > 2 or node.inputs[1] not in whole.positions or tensors[0].shape[0] != whole.sizes[name]:
        raise _order_matters("indexing")
    return tensors[0]


def _scatter_add(whole: _Whole, node: Node, tensors: tuple[Tensor, ...], name: str) -> Any:
    if len(tensors) > 2 or node.inputs[1] not in whole.positions or node.attrs["shape"][0] != whole.sizes[name]:
        raise _order_matters("indexing")
    return whole.chosen(tensors[0], 0, name, 0)


def _iota(whole: _Whole, node: Node, tensors: tuple[Tensor, ...], name: str) -> Any:
    """A size as a number; `np.arange` of it numbers the selected elements, which nobody does here."""
    size = dict(node.attrs["start"].terms) if isinstance(node.attrs["start"], Dim) else {}
    slope, offset = size.pop((name,), 0), size.pop((), 0)
    if size or not slope or node.attrs["shape"] != (1,):
        raise _order_matters("counting")
    return reshape(tensor_sum(whole.masks[name], dtype=node.attrs["dtype"]) * slope + offset, (1,))


def _reduction(whole: _Whole, node: Node, tensors: tuple[Tensor, ...], name: str) -> Any:
    (x,), axis = tensors, whole.axis(node.inputs[0], name)
    if axis is None or axis not in node.attrs["axis"]:
        return whole.trace.apply(node.op, (x,), node.attrs)
    if node.name not in ("max", "min"):
        neutral = {"sum": 0, "prod": 1, "any": False, "all": True}[node.name]
        return whole.trace.apply(node.op, (whole.chosen(x, axis, name, neutral),), node.attrs)
    if x.dtype.kind == "b":
        raise _order_matters(node.name)
    limits = np.finfo(x.dtype) if x.dtype.kind == "f" else np.iinfo(x.dtype)
    lowest, highest = (-np.inf, np.inf) if x.dtype.kind == "f" else (limits.min, limits.max)
    other = lowest if node.name == "max" else highest
    result = whole.trace.apply(node.op, (whole.chosen(x, axis, name, other),), node.attrs)
    selected = np.all(not_equal(result, np.asarray(other, x.dtype)[()]))  # it is that of a selected element
    whole.held.append(whole.trace.lift(selected))
    return result


def _with_shape(whole: _Whole, node: Node, tensors: tuple[Tensor, ...], name: str) -> Any:
    """reshape, broadcast_to, transpose: a reshape must leave the axis of the elements where it is."""
    attrs = {k: whole.shape(v) if k == "shape" else v for k, v in node.attrs.items()}
    if node.name == "reshape":
        before, after = whole.axis(node.inputs[0], name), whole.axis(node.output, name)
        if before is None or after is None:
            raise _order_matters("a reshape")
        if product(node.inputs[0].type.shape[:before]) != product(node.output.type.shape[:after]):
            raise _order_matters("a reshape")
    return whole.trace.apply(node.op, tensors, attrs)


def _matmul(whole: _Whole, node: Node, tensors: tuple[Tensor, ...], name: str) -> Any:
    a, b = tensors
    if max(a.ndim, b.ndim) > 2:
        raise _order_matters("matmul")
    left, right = (whole.axis(v, name) for v in node.inputs)
    if left == a.ndim - 1 and right == max(0, b.ndim - 2):  # summed over
        a, b = whole.chosen(a, left, name, 0), whole.chosen(b, right, name, 0)
    return MatMul.apply(a, b)


_RULES: dict[str, Rule] = {
    "nonzero": _nonzero,
    "gather": _gather,
    "scatter_add": _scatter_add,
    "iota": _iota,
    "matmul": _matmul,
    **dict.fromkeys(("sum", "prod", "max", "min", "any", "all"), _reduction),
    **dict.fromkeys(("reshape", "broadcast_to", "transpose"), _with_shape),
}
