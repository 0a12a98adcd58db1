"""Algebra of moves: reshape, transpose, broadcast, slice. All exact: no arithmetic is done."""

from __future__ import annotations

from tracegrad.ir.graph import Node, Var
from tracegrad.passes.rewrite import Rewriter, Table

TABLE = Table()
row = TABLE.row


@row("reshape", "transpose", "broadcast_to", "slice", equation="a move that moves nothing = x")
def move_nothing(r: Rewriter, node: Node) -> Var | None:
    x, attrs = node.inputs[0], node.attrs
    if node.name == "transpose" and attrs["axes"] != tuple(range(x.type.ndim)):
        return None
    if node.name == "slice" and (any(a != 0 for a in attrs["start"]) or any(s != 1 for s in attrs["step"])):
        return None
    return x  # if it has the same shape


@row("reshape", equation="reshape(reshape(x, s), t) = reshape(x, t)")
def reshape_of_reshape(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "reshape")
    return None if inner is None else r.emit("reshape", inner.inputs[0], shape=node.attrs["shape"])


@row("reshape", equation="reshape(broadcast(x, s), t) = reshape(x, t) where s repeats nothing")
def reshape_of_added_axes(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "broadcast_to")
    if inner is None or inner.inputs[0].type.size != inner.output.type.size:
        return None
    return r.emit("reshape", inner.inputs[0], shape=node.attrs["shape"])


@row("transpose", equation="transpose(transpose(x, p), q) = transpose(x, p[q])")
def transpose_of_transpose(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "transpose")
    if inner is None:
        return None
    return r.emit("transpose", inner.inputs[0], axes=tuple(inner.attrs["axes"][a] for a in node.attrs["axes"]))


@row("broadcast_to", equation="broadcast(broadcast(x, s), t) = broadcast(x, t)")
def broadcast_of_broadcast(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "broadcast_to")
    return None if inner is None else r.emit("broadcast_to", inner.inputs[0], shape=node.attrs["shape"])


@row("broadcast_to", equation="broadcast(reshape(x, (1, …, *x.shape)), s) = broadcast(x, s)")
def broadcast_adds_leading_axes(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "reshape")
    x = r.source(node.inputs[0])
    return None if inner is None or x is node.inputs[0] else r.emit("broadcast_to", x, shape=node.attrs["shape"])


@row("slice", equation="slice(slice(x, a, n, s), b, m, t) = slice(x, a + s * b, m, s * t)")
def slice_of_slice(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "slice")
    if inner is None:
        return None
    axes = zip(inner.attrs["start"], inner.attrs["step"], node.attrs["start"], node.attrs["step"], strict=True)
    composed = [(a + s * b, s * t) for a, s, b, t in axes]
    start, step = tuple(a for a, _ in composed), tuple(s for _, s in composed)
    return r.emit("slice", inner.inputs[0], start=start, size=node.attrs["size"], step=step)


@row("slice", equation="slice(transpose(x, p), s) = transpose(slice(x, s'), p)")
def slice_of_transpose(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "transpose")
    if inner is None:
        return None
    axes = inner.attrs["axes"]
    back = [axes.index(a) for a in range(len(axes))]
    attrs = {name: tuple(values[k] for k in back) for name, values in node.attrs.items()}
    return r.emit("transpose", r.emit("slice", inner.inputs[0], **attrs), axes=axes)


@row("slice", equation="slice(unslice(x)) = x, slice(slice_update(y, x)) = x for the same elements")
def slice_of_placed(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0])
    if inner is None or inner.name not in ("unslice", "slice_update"):
        return None
    same = inner.attrs["start"] == node.attrs["start"] and inner.attrs["step"] == node.attrs["step"]
    return inner.inputs[-1] if same and inner.inputs[-1].type.shape == node.attrs["size"] else None


@row("slice", equation="slice(broadcast(x, s)) = broadcast(slice(x), size)")
def slice_of_broadcast(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "broadcast_to")
    if inner is None or len(node.attrs["size"]) != node.inputs[0].type.ndim:
        return None
    x = inner.inputs[0]
    extra = node.inputs[0].type.ndim - x.type.ndim
    start, size, step = (list(node.attrs[name][extra:]) for name in ("start", "size", "step"))
    for axis, dim in enumerate(x.type.shape):
        if dim == 1:
            start[axis], size[axis], step[axis] = 0, 1, 1
    if x.type.ndim:
        x = r.emit("slice", x, start=tuple(start), size=tuple(size), step=tuple(step))
    return r.emit("broadcast_to", x, shape=node.attrs["size"])


@row("reshape", "transpose", equation="move(broadcast(c, s)) = broadcast(c, t) for a 0-d c")
def move_of_uniform(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "broadcast_to")
    if inner is None or inner.inputs[0].type.shape:
        return None
    return r.emit("broadcast_to", inner.inputs[0], shape=node.output.type.shape)
