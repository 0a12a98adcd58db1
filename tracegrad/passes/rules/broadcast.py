"""Broadcasts meet arithmetic: operands broadcast by themselves, and what is the same everywhere is computed once."""

from __future__ import annotations

import numpy as np

from tracegrad.ir.graph import Node, Var
from tracegrad.ops.base import broadcast_shapes
from tracegrad.passes.rewrite import ELEMENTWISE, Rewriter, Table
from tracegrad.passes.rules.shape import without_leading_ones

TABLE = Table()
row = TABLE.row


@row("constant", equation="constant([c, c, …]) = broadcast(c)")
def uniform_constant(r: Rewriter, node: Node) -> Var | None:
    array = node.attrs["value"]
    if array.size < 2:
        return None
    flat = np.ascontiguousarray(array).reshape(-1)
    bits = flat.view(np.uint8).reshape(-1, array.itemsize)
    if np.any(bits[-1] != bits[0]) or np.any(bits != bits[0]):
        return None
    return r.emit("broadcast_to", r.constant(flat[0], array.dtype), shape=array.shape)


@row(ELEMENTWISE, equation="f(broadcast(x, s), broadcast(y, s)) = broadcast(f(x, y), s)")
def computed_once(r: Rewriter, node: Node) -> Var | None:
    sources = [_source(r, v) for v in node.inputs]
    if sources == list(node.inputs):
        return None
    shape = broadcast_shapes(*(v.type.shape for v in sources))
    if shape == node.output.type.shape:
        return None
    value = r.emit(node.name, *sources, **node.attrs)
    return r.emit("broadcast_to", value, shape=node.output.type.shape)


@row(ELEMENTWISE, equation="f(broadcast(x, s), y) = f(x, y) where y has the shape s")
def implicit_broadcast(r: Rewriter, node: Node) -> Var | None:
    operands = list(node.inputs)
    for position, var in enumerate(operands):
        source = _source(r, var)
        if source is not var:
            shapes = [v.type.shape for v in operands]
            shapes[position] = source.type.shape
            if broadcast_shapes(*shapes) == node.output.type.shape:
                operands[position] = source
    return None if operands == list(node.inputs) else r.emit(node.name, *operands, **node.attrs)


def _source(r: Rewriter, var: Var) -> Var:
    """What `var` is a broadcast of, with the same dtype and not weak; `var` itself if it is none."""
    inner = r.node(var, "broadcast_to")
    source = without_leading_ones(r, var if inner is None else inner.inputs[0])
    if source is var or not source.type.weak:
        return source
    return r.constant(r.constants[source], source.type.dtype) if source in r.constants else var
