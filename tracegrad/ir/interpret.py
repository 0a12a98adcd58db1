"""The interpreter: runs any graph with NumPy. It defines what a graph means; compiled code must agree with it.

A graph with symbolic dimensions is run for the sizes its arguments have: symbols are bound from the inputs' shapes and
replaced in the attributes as the nodes are reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.dims import Dim, evaluate
from tracegrad.ir.graph import Graph, Node, Var

NO_SIZES: Mapping[str, int] = {}


def interpret(graph: Graph, args: Sequence[Any], sizes: Mapping[str, int] = NO_SIZES) -> tuple[Any, ...]:
    """The graph's outputs for these inputs (ndarrays; Python numbers where the input is weak).

    Outputs may be views of inputs. `sizes` are symbols known from outside, for bodies of an outer graph. Raises
    ArgumentError for a wrong number or dtype of arguments, ShapeError for a wrong shape.
    """
    sizes = bind(graph, args, sizes)
    values: dict[Var, Any] = dict(zip(graph.inputs, args, strict=True))
    last_use = _last_uses(graph)
    for position, node in enumerate(graph.nodes):
        results = run_node(node, [values[v] for v in node.inputs], sizes)
        values.update(zip(node.outputs, results, strict=True))
        for var in last_use.get(position, ()):
            values.pop(var, None)
    return tuple(values[v] for v in graph.outputs)


def bind(graph: Graph, args: Sequence[Any], sizes: Mapping[str, int] = NO_SIZES) -> Mapping[str, int]:
    """The integer each symbol of the inputs' types stands for in this call, added to `sizes`."""
    if len(args) != len(graph.inputs):
        raise ArgumentError(f"{graph.name} takes {len(graph.inputs)} values, not {len(args)}")
    found = dict(sizes)
    composed: list[tuple[Var, Any]] = []
    for var, arg in zip(graph.inputs, args, strict=True):
        if var.type.weak:
            continue
        array = np.asarray(arg)
        if array.dtype != var.type.dtype:
            raise ArgumentError(f"the input {var} got an array of dtype {array.dtype}")
        if array.ndim != var.type.ndim:
            raise ShapeError(f"the input {var} got an array of shape {array.shape}")
        for dim, extent in zip(var.type.shape, array.shape, strict=True):
            name = _symbol_name(dim)
            if name is not None:
                found.setdefault(name, extent)
        composed.append((var, array))
    for var, array in composed:
        if tuple(evaluate(d, found) for d in var.type.shape) != array.shape:
            where = ", ".join(f"{k} = {v}" for k, v in found.items())
            raise ShapeError(f"the input {var} got an array of shape {array.shape}{' where ' + where if where else ''}")
    return found


def _symbol_name(dim: Any) -> str | None:
    """The name of a dimension that is a symbol alone."""
    if isinstance(dim, Dim) and len(dim.terms) == 1:
        ((monomial, coefficient),) = dim.terms
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], str):
            return monomial[0]
    return None


def run_node(node: Node, inputs: Sequence[Any], sizes: Mapping[str, int] = NO_SIZES) -> tuple[Any, ...]:
    """The results of one node, as arrays (Python numbers where weak)."""
    if node.bodies and node.op.lower is None:
        results: Any = node.op.run_bodies(node, inputs, sizes)
    else:
        attrs = {k: concrete(v, sizes) for k, v in node.attrs.items()} if sizes else node.attrs
        results = node.op.forward(*inputs, **attrs)
    if type(results) is not tuple:
        results = (results,)
    return tuple(
        np.asarray(r).item() if out.type.weak else r if isinstance(r, np.ndarray) else np.asarray(r)
        for r, out in zip(results, node.outputs, strict=True)
    )


def run_host(function: Any, arrays: Sequence[Any], sizes: Mapping[str, int]) -> Any:
    """A Python function that a program calls: one that stands for a node is told the sizes of the call."""
    run = getattr(function, "run", None)
    return function(*arrays) if run is None else run(arrays, sizes)


def concrete(value: Any, sizes: Mapping[str, int]) -> Any:
    """An attribute with its dimensions evaluated."""
    if isinstance(value, Dim):
        return evaluate(value, sizes)
    if type(value) is tuple:
        return tuple(concrete(v, sizes) for v in value)
    return value


def _last_uses(graph: Graph) -> dict[int, list[Var]]:
    """Per node position, the values nobody reads after it."""
    last: dict[Var, int] = {}
    for position, node in enumerate(graph.nodes):
        for var in (*node.inputs, *node.outputs):
            last[var] = position
    for var in graph.outputs:
        last.pop(var, None)
    uses: dict[int, list[Var]] = {}
    for var, position in last.items():
        uses.setdefault(position, []).append(var)
    return uses
