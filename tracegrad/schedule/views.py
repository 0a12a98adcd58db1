"""Nodes that only move elements, as index maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.ir import lowering
from tracegrad.ir.dims import Dim, DimLike, product
from tracegrad.ir.graph import Node, Var
from tracegrad.ir.index import Affine, Bound, Index, Piece, variable
from tracegrad.schedule.loops import Apply, FromIndex, Literal, Where
from tracegrad.schedule.maps import ZERO, linear, split
from tracegrad.schedule.statements import cast

MOST_IN_A_ROW = 8  # pieces of which one is found by asking one after the other


def pieces_of(node: Node, lower: lowering.IndexMap) -> tuple[Piece, ...]:
    """The pieces of a node on the variables d0, d1, … of its result."""
    out = node.output.type
    index = tuple(variable(f"d{axis}") for axis in range(out.ndim))
    return tuple(lower.pieces(index, tuple(v.type for v in node.inputs), out, **node.attrs))


def iota(node: Node, index: Sequence[Index]) -> Any:
    """`start + step * i` along the node's axis, computed in the dtype of the numbers and then cast."""
    dtype = node.output.type.dtype
    start, step = (a if isinstance(a, Dim) else np.asarray(a).item() for a in map(node.attrs.get, ("start", "step")))
    i = index[node.attrs["axis"]]
    whole = isinstance(start, (int, Dim)) and isinstance(step, int)
    if whole and isinstance(i, Affine):
        return cast(FromIndex(i * step + start, np.dtype(np.int64)), dtype)
    compute = np.dtype(np.int64 if whole else np.float64)
    expr: Any = FromIndex(i, compute)
    if step != 1:
        expr = Apply("multiply", (expr, Literal(step, compute)), compute)
    if start != 0:
        expr = Apply("add", (expr, Literal(start, compute)), compute)
    return cast(expr, dtype)


def only_units(a: Sequence[DimLike], b: Sequence[DimLike]) -> bool:
    """Whether two shapes differ only in dimensions of size 1."""
    return [d for d in a if d != 1] == [d for d in b if d != 1]


def reshaped(
    index: Sequence[Index], shape: Sequence[DimLike], source: Sequence[DimLike], extents: Mapping[str, DimLike]
) -> tuple[Index, ...] | None:
    """Where element `index` of the reshaped array stands in the source; None where that is not affine."""
    if any(isinstance(d, int) and d == 0 for d in (*shape, *source)):
        return tuple(ZERO for _ in source)
    given = [(i, d) for i, d in zip(index, shape, strict=True) if d != 1]
    wanted = [d for d in source if d != 1]
    found: list[Index] = []
    while wanted:
        inner, outer = [wanted.pop(0)], [given.pop(0)] if given else []
        while product(inner) != product(d for _, d in outer):
            if not given and not wanted:
                return None
            grow_outer = bool(given) and (not wanted or _less(product(d for _, d in outer), product(inner)))
            if grow_outer:
                outer.append(given.pop(0))
            else:
                inner.append(wanted.pop(0))
        part = _group(outer, inner, extents)
        if part is None:
            return None
        found.extend(part)
    rest = iter(found)
    return tuple(ZERO if d == 1 else next(rest) for d in source)


def _less(a: DimLike, b: DimLike) -> bool:
    """A guess, where symbols leave it open, of which side of a group is the smaller one."""
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    degree = [max((len(m) for m, _ in d.terms), default=0) if not isinstance(d, int) else 0 for d in (a, b)]
    return degree[0] < degree[1] or (degree[0] == degree[1] and str(a) < str(b))


def _group(
    outer: list[tuple[Index, DimLike]], inner: list[DimLike], extents: Mapping[str, DimLike]
) -> list[Index] | None:
    if len(outer) == 1 and len(inner) == 1:
        return [outer[0][0]]
    if not all(isinstance(i, Affine) for i, _ in outer):
        return None
    position = linear([i for i, _ in outer if isinstance(i, Affine)], [d for _, d in outer])
    found: list[Index] = []
    for extent in reversed(inner[1:]):
        parts = split(position, extent, extents)
        if parts is None:
            return None
        position, low = parts
        found.append(low)
    return [position, *reversed(found)]


def chosen(elements: Sequence[tuple[tuple[Bound, ...], Any]], otherwise: Any, ascending: bool) -> Any:
    """The first of the elements whose bounds hold; many whose bounds are ascending are halved."""
    if ascending and len(elements) > MOST_IN_A_ROW:
        half = len(elements) // 2
        when, last = elements[half - 1]
        first = chosen(elements[: half - 1], last, ascending)
        return Where(when, first, chosen(elements[half:], otherwise, ascending), otherwise.dtype)
    for when, element in reversed(elements):
        otherwise = Where(when, element, otherwise, element.dtype) if when else element
    return otherwise


def transposed_source(definitions: Mapping[Var, Node], var: Var) -> Var | None:
    """The value whose last two axes, exchanged, are `var`; None if `var` is anything else."""
    node = definitions.get(var)
    if node is None or not isinstance(node.op.lower, lowering.IndexMap) or var.type.ndim < 2:
        return None
    pieces = pieces_of(node, node.op.lower)
    if len(pieces) != 1 or pieces[0].when:
        return None
    source = node.inputs[pieces[0].operand]
    names = [variable(f"d{axis}") for axis in range(var.type.ndim)]
    names[-1], names[-2] = names[-2], names[-1]
    swapped = (*var.type.shape[:-2], var.type.shape[-1], var.type.shape[-2])
    exchanged = source.type.shape == swapped and pieces[0].index == tuple(names)
    return source if exchanged and source.type.dtype == var.type.dtype else None
