"""Algebra of reductions and matrix products.

Here rounding may change, by less than the freedom every sum has: the order in which NumPy, BLAS or a compiled loop adds
is not promised. NaN, infinities and signs of zeros stay; NumPy's sums start from +0.0, so they are never -0.0.
"""

from __future__ import annotations

import numpy as np

from tracegrad.ir.dims import product
from tracegrad.ir.graph import Node, Var
from tracegrad.passes.rewrite import Rewriter, Table

TABLE = Table()
row = TABLE.row

REDUCTIONS = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")


@row("sum", equation="sum over axes of size 1 = x + 0")
def sum_of_one(r: Rewriter, node: Node) -> Var | None:
    x, out = node.inputs[0], node.output.type
    if any(x.type.shape[a] != 1 for a in node.attrs["axis"]) or x.type.weak:
        return None
    if x.type.dtype != out.dtype:
        x = r.emit("cast", x, dtype=out.dtype)
    if out.dtype.kind == "f":
        x = r.emit("add", x, r.like(x, 0))
    elif out.dtype.kind == "c":
        return None
    return x if x.type.shape == out.shape else r.emit("reshape", x, shape=out.shape)


@row("sum", equation="sum over a broadcast axis of size n = x * n")
def sum_of_broadcast(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "broadcast_to")
    dtype = node.output.type.dtype
    if inner is None or dtype.kind not in "fiu" or inner.inputs[0].type.weak:
        return None
    x, shape, axis = inner.inputs[0], node.inputs[0].type.shape, node.attrs["axis"]
    aligned = (1,) * (len(shape) - x.type.ndim) + x.type.shape
    count = product(shape[a] for a in axis if aligned[a] == 1)
    if not isinstance(count, int) or count < 2 or not _representable(count, dtype):
        return None
    if x.type.dtype != dtype:
        x = r.emit("cast", x, dtype=dtype)
    if x.type.shape != aligned:
        x = r.emit("reshape", x, shape=aligned)
    total = r.emit("sum", x, axis=axis, keepdims=node.attrs["keepdims"], dtype=dtype)
    scaled = r.emit("multiply", total, r.like(total, count))
    out = node.output.type.shape
    return scaled if scaled.type.shape == out else r.emit("broadcast_to", scaled, shape=out)


def _representable(count: int, dtype: np.dtype) -> bool:
    with np.errstate(all="ignore"):
        number = np.asarray(count).astype(dtype)
        return bool(np.isfinite(number)) and int(number) == count


@row("sum", equation="sum(sum(x, a), b) = sum(x, a and b), if the inner sum is not read elsewhere")
def sum_of_sum(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "sum")
    if inner is None or inner.attrs["dtype"] != node.attrs["dtype"] or not r.read_once(node.inputs[0]):
        return None
    if inner.inputs[0].type.dtype != inner.attrs["dtype"]:
        return None
    first, ndim = inner.attrs["axis"], inner.inputs[0].type.ndim
    left = tuple(a for a in range(ndim) if inner.attrs["keepdims"] or a not in first)
    axis = tuple(sorted({*first, *(left[a] for a in node.attrs["axis"])}))
    keepdims = node.attrs["keepdims"]
    merged = r.emit("sum", inner.inputs[0], axis=axis, keepdims=keepdims, dtype=node.attrs["dtype"])
    shape = node.output.type.shape
    return merged if merged.type.shape == shape else r.emit("reshape", merged, shape=shape)


@row("reshape", equation="reshape(reduce(x), shape with the axes kept, or dropped) = reduce(x, keepdims)")
def reshape_of_reduction(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0])
    if inner is None or inner.name not in REDUCTIONS or not r.read_once(node.inputs[0]):
        return None
    attrs = {**inner.attrs, "keepdims": not inner.attrs["keepdims"]}
    axis, shape = attrs["axis"], inner.inputs[0].type.shape
    wanted = tuple(1 if i in axis else d for i, d in enumerate(shape) if attrs["keepdims"] or i not in axis)
    return r.emit(inner.name, inner.inputs[0], **attrs) if wanted == node.attrs["shape"] else None


@row("sum", equation="sum of all of reshape(x) = sum of all of x")
def sum_of_reshape(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0])
    if inner is None or inner.name not in ("reshape", "transpose") or node.attrs["keepdims"]:
        return None
    if len(node.attrs["axis"]) != node.inputs[0].type.ndim or not r.read_once(node.inputs[0]):
        return None
    x = inner.inputs[0]
    return r.emit("sum", x, axis=tuple(range(x.type.ndim)), keepdims=False, dtype=node.attrs["dtype"])


@row("transpose", equation="transpose(transpose(x) @ transpose(y)) = y @ x for matrices")
def transpose_of_product(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "matmul")
    if inner is None or not r.read_once(node.inputs[0]):
        return None
    x, y = (r.node(v, "transpose") for v in inner.inputs)
    if x is None or y is None or any(n.attrs["axes"] != (1, 0) for n in (node, x, y)):
        return None
    return r.emit("matmul", y.inputs[0], x.inputs[0])
