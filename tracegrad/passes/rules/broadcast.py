"""Broadcasts meet arithmetic: operands broadcast by themselves, and what is the same everywhere is computed once."""

from __future__ import annotations

import operator

import numpy as np

from tracegrad.ir.graph import Node, Var
from tracegrad.ops.base import broadcast_shapes
from tracegrad.passes.rewrite import ELEMENTWISE, Rewriter, Table

TABLE = Table()
row = TABLE.row


@row("constant", equation="constant([c, c, …]) = broadcast(c)")
def uniform_constant(r: Rewriter, node: Node) -> Var | None:
    array = node.attrs["value"]
    if array.size == 0 or array.ndim == 0:
        return None
    flat = np.ascontiguousarray(array).reshape(-1)
    bits = flat.view(np.uint8).reshape(-1, array.itemsize)
    if np.any(bits[-1] != bits[0]) or np.any(bits != bits[0]):
        return None
    return r.emit("broadcast_to", r.constant(flat[0], array.dtype), shape=array.shape)


@row(ELEMENTWISE, equation="f(broadcast(x, s), broadcast(y, s)) = broadcast(f(x, y), s)")
def computed_once(r: Rewriter, node: Node) -> Var | None:
    sources = [_source(r, v) for v in node.inputs]
    if all(map(operator.is_, sources, node.inputs)):
        return None
    shape = broadcast_shapes(*(v.type.shape for v in sources))
    if shape == node.output.type.shape:
        return None
    value = r.emit(node.name, *sources, **node.attrs)
    return r.emit("broadcast_to", value, shape=node.output.type.shape)


@row(ELEMENTWISE, equation="f(broadcast(x, s), y) = f(x, y) where y has the shape s")
def implicit_broadcast(r: Rewriter, node: Node) -> Var | None:
    operands = [_source(r, v) for v in node.inputs]
    if all(map(operator.is_, operands, node.inputs)):
        return None
    out = node.output.type.shape
    for position, var in enumerate(node.inputs):
        shapes = [v.type.shape for v in operands]
        if broadcast_shapes(*shapes) == out:
            return r.emit(node.name, *operands, **node.attrs)
        operands[position] = var  # let this one give its shape to the result
        if all(map(operator.is_, operands, node.inputs)):
            break
    return None


def _source(r: Rewriter, var: Var) -> Var:
    """What `var` is a broadcast of, with the same dtype and not weak; `var` itself if it is none."""
    source = r.source(var)
    if source is var or not source.type.weak:
        return source
    return r.constant(r.constants[source], source.type.dtype) if source in r.constants else var
