"""Algebra of writes through views: they become writes to the array behind, which then need not be copied. All exact.

`a.T[j, i] = v` is recorded as a' = transpose(write(transpose(a), v)): as it stands, two passes over the whole of a.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Node, Var
from tracegrad.ops.shape import inverse_permutation
from tracegrad.passes.rewrite import Rewriter, Table

TABLE = Table()
row = TABLE.row


@row("write", equation="write(transpose(x, p), v, i) = transpose(write(x, v', i), p)")
def write_to_transpose(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "transpose")
    if inner is None:
        return None
    p, (_, value, *indices), attrs = inner.attrs["axes"], node.inputs, node.attrs
    back = inverse_permutation(p)
    depth = indices[0].type.ndim if indices else 0
    rest = [k for k in range(len(p)) if k not in attrs["axes"]]
    order = (*range(depth), *(depth + rest.index(back[a]) for a in range(len(p)) if back[a] in rest))
    changed = {
        "axes": tuple(p[k] for k in attrs["axes"]),
        "start": tuple(attrs["start"][k] for k in back),
        "step": tuple(attrs["step"][k] for k in back),
        "add": attrs["add"],
    }
    written = r.emit("write", inner.inputs[0], _transposed(r, value, order), *indices, **changed)
    return r.emit("transpose", written, axes=p)


@row("slice_update", equation="slice_update(transpose(x, p), v) = transpose(slice_update(x, v'), p)")
def update_transpose(r: Rewriter, node: Node) -> Var | None:
    inner = r.node(node.inputs[0], "transpose")
    if inner is None:
        return None
    back = inverse_permutation(inner.attrs["axes"])
    start, step = (tuple(node.attrs[name][k] for k in back) for name in ("start", "step"))
    value = _transposed(r, node.inputs[1], back)
    written = r.emit("slice_update", inner.inputs[0], value, start=start, step=step)
    return r.emit("transpose", written, axes=inner.attrs["axes"])


@row("slice_update", equation="slice_update(x, slice_update(slice(x, s), v, t), s) = slice_update(x, v, s ∘ t)")
def update_in_slice(r: Rewriter, node: Node) -> Var | None:
    found = _through_slice(r, node, "slice_update")
    if found is None:
        return None
    inner, start, step = found
    return r.emit("slice_update", node.inputs[0], inner.inputs[1], start=start, step=step)


@row(
    "slice_update",
    equation="slice_update(x, write(slice(x, s), v, i), s) = write(x, v, i) where s is all of what i indexes",
)
def write_in_slice(r: Rewriter, node: Node) -> Var | None:
    found = _through_slice(r, node, "write")
    if found is None:
        return None
    inner, start, step = found
    shape, view = node.output.type.shape, inner.output.type.shape
    if any(shape[a] != view[a] or node.attrs["step"][a] != 1 for a in inner.attrs["axes"]):
        return None  # the positions would be others, and others out of range
    axes, add = inner.attrs["axes"], inner.attrs["add"]
    return r.emit("write", node.inputs[0], *inner.inputs[1:], axes=axes, start=start, step=step, add=add)


@row("add", equation="slice_update(x, a, s) + unslice(b, s) = slice_update(x, a + b, s), or b if a is 0 (but for -0.0)")
def sum_in_slice(r: Rewriter, node: Node) -> Var | None:
    for replaced, placed in (node.inputs, node.inputs[::-1]):
        update, part = r.node(replaced, "slice_update"), r.node(placed, "unslice")
        if update is None or part is None or part.attrs["fill"] != 0:
            continue
        x, a, b = *update.inputs, part.inputs[0]
        if a.type == b.type and all(update.attrs[key] == part.attrs[key] for key in ("start", "step")):
            total = b if r.number(a) == 0 else r.emit("add", a, b)
            return r.emit("slice_update", x, total, **update.attrs)
    return None


def _through_slice(r: Rewriter, node: Node, name: str) -> tuple[Node, tuple[DimLike, ...], tuple[int, ...]] | None:
    """The write to a slice of x that `node` puts back into x, and where it lies in x."""
    inner = r.node(node.inputs[1], name)
    view = None if inner is None else r.node(inner.inputs[0], "slice")
    if inner is None or view is None or view.inputs[0] is not node.inputs[0]:
        return None
    if any(view.attrs[key] != node.attrs[key] for key in ("start", "step")):
        return None
    composed = [
        (a + s * b, s * t)
        for a, s, b, t in zip(
            node.attrs["start"], node.attrs["step"], inner.attrs["start"], inner.attrs["step"], strict=True
        )
    ]
    return inner, tuple(a for a, _ in composed), tuple(s for _, s in composed)


def _transposed(r: Rewriter, value: Var, axes: Sequence[int]) -> Var:
    return value if list(axes) == sorted(axes) else r.emit("transpose", value, axes=tuple(axes))
