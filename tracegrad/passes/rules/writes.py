"""Algebra of writes through views: they become writes to the array behind, which then need not be copied. All exact.

`a.T[j, i] = v` is recorded as a' = transpose(write(transpose(a), v)): as it stands, two passes over the whole of a.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Node, Var
from tracegrad.ops.shape import inverse_permutation
from tracegrad.passes.rewrite import Rewriter, Table

TABLE = Table()
row = TABLE.row
MOST_WRITES = 8  # in a row, that are seen to be to one view


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
        "extents": attrs["extents"],
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


@row("slice_update", equation="slice_update(x, slice(x, s), s) = x")
def update_with_itself(r: Rewriter, node: Node) -> Var | None:
    x, value = node.inputs
    return x if _is_slice(r, value, x, node.attrs) else None


@row("slice_update", equation="slice_update(x, write(a, v, i, t), s) = write(slice_update(x, a, s), v, i, s ∘ t)")
def write_in_slice(r: Rewriter, node: Node) -> Var | None:
    x, attrs = node.inputs[0], node.attrs
    inner = _write_to_view(r, node.inputs[1], lambda a: _is_slice(r, a, x, attrs))
    if inner is None:
        return None
    a, *rest = inner.inputs
    start, step = _composed(attrs, inner.attrs)
    return r.emit(
        inner.name, r.emit("slice_update", x, a, **attrs), *rest, **{**inner.attrs, "start": start, "step": step}
    )


@row(
    "reshape",
    equation="reshape(write(a, v, i)) = write(reshape(a), v', i) where a is x with axes of size 1 more or less",
)
def write_to_reshape(r: Rewriter, node: Node) -> Var | None:
    shape = node.output.type.shape

    def reshaped(a: Var) -> bool:
        made = r.node(a, "reshape")
        return made is not None and made.inputs[0].type.shape == shape

    inner = _write_to_view(r, node.inputs[0], reshaped)
    if inner is None:
        return None
    former, (a, value, *indices), attrs = inner.output.type.shape, inner.inputs, inner.attrs
    kept, wanted = ([k for k, d in enumerate(dims) if d != 1] for dims in (former, shape))
    if [former[k] for k in kept] != [shape[k] for k in wanted]:
        return None
    axes, place = attrs.get("axes", ()), dict(zip(wanted, kept, strict=True))
    depth = indices[0].type.ndim if indices else 0
    size = dict(zip((k for k in range(len(former)) if k not in axes), value.type.shape[depth:], strict=True))
    if any(k in axes or size[k] != 1 for k in range(len(former)) if k not in kept):
        return None
    within = [1 if k not in place else size[place[k]] for k in range(len(shape)) if place.get(k) not in axes]
    changed = {
        "start": tuple(attrs["start"][place[k]] if k in place else 0 for k in range(len(shape))),
        "step": tuple(attrs["step"][place[k]] if k in place else 1 for k in range(len(shape))),
    }
    if inner.name == "write":
        changed["axes"] = tuple(wanted[kept.index(k)] for k in axes)
    value = r.emit("reshape", value, shape=(*value.type.shape[:depth], *within))
    return r.emit(inner.name, r.emit("reshape", a, shape=shape), value, *indices, **{**attrs, **changed})


@row("add", equation="slice_update(x, a, s) + unslice(b, s) = slice_update(x, a + b, s), or b if a is 0 (but for -0.0)")
def sum_in_slice(r: Rewriter, node: Node) -> Var | None:
    for replaced, placed in (node.inputs, node.inputs[::-1]):
        update, part = r.node(replaced, "slice_update"), r.node(placed, "unslice")
        if update is None or part is None or part.attrs["fill"] != 0:
            continue
        x, a, b = *update.inputs, part.inputs[0]
        if a.type != b.type or a.type.dtype != x.type.dtype:
            continue
        if all(update.attrs[key] == part.attrs[key] for key in ("start", "step")):
            total = b if r.number(a) == 0 else r.emit("add", a, b)
            return r.emit("slice_update", x, total, **update.attrs)
    return None


def _write_to_view(r: Rewriter, var: Var, is_view: Callable[[Var], bool]) -> Node | None:
    """The node that makes `var`, if it is a write to a view, or to one that has been written to."""
    first = node = r.node(var)
    for _ in range(MOST_WRITES):
        if node is None or node.name not in ("write", "slice_update"):
            return None
        if is_view(node.inputs[0]):
            return first
        node = r.node(node.inputs[0])
    return None


def _is_slice(r: Rewriter, var: Var, x: Var, attrs: Mapping[str, Any]) -> bool:
    """Whether a value is that slice of x; both may be slices of the same array."""
    node = r.node(var, "slice")
    if node is None:
        return False
    source, place = x, (attrs["start"], attrs["step"])
    if node.inputs[0] is not x and (outer := r.node(x, "slice")) is not None:
        source, place = outer.inputs[0], _composed(outer.attrs, attrs)
    return node.inputs[0] is source and (node.attrs["start"], node.attrs["step"]) == place


def _composed(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> tuple[tuple[DimLike, ...], tuple[int, ...]]:
    """Where a slice of a slice begins, and its step."""
    axes = list(zip(outer["start"], outer["step"], inner["start"], inner["step"], strict=True))
    return tuple(a + s * b for a, s, b, _ in axes), tuple(s * t for _, s, _, t in axes)


def _transposed(r: Rewriter, value: Var, axes: Sequence[int]) -> Var:
    return value if list(axes) == sorted(axes) else r.emit("transpose", value, axes=tuple(axes))
