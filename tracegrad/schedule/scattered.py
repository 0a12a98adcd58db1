"""Statements that read or write at positions given by data: gathers, scatters, writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad.ir import lowering
from tracegrad.ir.dims import DimLike
from tracegrad.ir.graph import Node, Var
from tracegrad.ir.index import Affine, Index, variable
from tracegrad.schedule import views
from tracegrad.schedule.fuse import guessed_size
from tracegrad.schedule.inplace import large, owners
from tracegrad.schedule.loops import Value
from tracegrad.schedule.maps import substitute, variable_of
from tracegrad.schedule.statements import Lookup, Ref, cast

if TYPE_CHECKING:
    from tracegrad.schedule.build import Builder

Target = tuple[Index | Value, ...]
CHAIN = 4  # so many slice_updates in a row are done in place
FEW = 4  # a region is small if it is at most a quarter of the array


def lookups(
    builder: Builder, arrays: Sequence[Var], index: tuple[Affine, ...], extents: Sequence[tuple[int, DimLike]]
) -> tuple[Lookup, ...]:
    """The elements of integer arrays at `index`, to be checked against (axis, extent)."""
    whole, order = np.dtype(np.int64), builder.order(index)
    return tuple(
        Lookup(cast(builder.read(v, index), whole), extent, axis, order)
        for v, (axis, extent) in zip(arrays, extents, strict=True)
    )


def gather(builder: Builder, node: Node) -> None:
    source, *arrays = node.inputs
    index = builder.variables(node.output.type.shape)
    depth = arrays[0].type.ndim
    found = lookups(builder, arrays, index[:depth], list(enumerate(source.type.shape[: len(arrays)])))
    wanted: tuple[Index, ...] = (*(variable(f"@{k}") for k in range(len(arrays))), *index[depth:])
    base, place = _behind_views(builder, source, wanted)
    ref = Ref(builder.materialised(base), tuple(map(_looked_up, place)))
    builder.refs.append(ref)
    builder.add(node.output, index, ref, builder.order(index), lookups=found)


def _looked_up(index: Index) -> Index | Value:
    name = variable_of(index)
    return Value(name) if name is not None and name.startswith("@") else index


def _behind_views(builder: Builder, var: Var, index: tuple[Index, ...]) -> tuple[Var, tuple[Index, ...]]:
    """The array behind slices and transposes, which need not be copied to read a few elements, and where they lie."""
    while var not in builder.made and (node := builder.definitions.get(var)) is not None:
        lower = node.op.lower
        place: tuple[Index, ...] | None = None
        if isinstance(lower, lowering.IndexMap):
            pieces = views.pieces_of(node, lower)
            if len(pieces) == 1 and not pieces[0].when and node.inputs[pieces[0].operand].type.dtype == var.type.dtype:
                values = {f"d{axis}": i for axis, i in enumerate(index)}
                place = tuple(substitute(i, values) for i in pieces[0].index)
        elif isinstance(lower, lowering.Reshape) and views.only_units(var.type.shape, node.inputs[0].type.shape):
            place = views.reshaped(index, var.type.shape, node.inputs[0].type.shape, builder.extents)
        if place is None or any(_moved(i) for i in place) or _looked_up_in(place) != _looked_up_in(index):
            break
        builder.visited.append(node)
        var, index = node.inputs[0], place
    return var, index


def _looked_up_in(index: tuple[Index, ...]) -> set[str]:
    return {i.name for i in map(_looked_up, index) if isinstance(i, Value)}


def _moved(index: Index) -> bool:
    """Whether an index is computed from a looked-up one and is not that one itself."""
    affine = index if isinstance(index, Affine) else index.affine
    return isinstance(_looked_up(index), Affine) and any(name.startswith("@") for name, _ in affine.terms)


def scatter(builder: Builder, node: Node) -> None:
    values, *arrays = node.inputs
    index = builder.variables(values.type.shape)
    depth = arrays[0].type.ndim
    found = lookups(builder, arrays, index[:depth], list(enumerate(node.output.type.shape[: len(arrays)])))
    target: Target = (*(Value(f"@{k}") for k in range(len(arrays))), *index[depth:])
    expr = cast(builder.read(values, index), node.output.type.dtype)
    reduced = frozenset(v for i in index[:depth] if (v := variable_of(i)))
    builder.program.whole.add(node.output)
    builder.add(node.output, target, expr, builder.order(index), "add", reduced, found)


def write(builder: Builder, node: Node) -> None:
    """The region's elements as a statement whose value is the former array's memory."""
    x, value, *arrays = node.inputs
    axes, start, step = node.attrs["axes"], node.attrs["start"], node.attrs["step"]
    index = builder.variables(value.type.shape)
    depth = arrays[0].type.ndim if arrays else 0
    found = lookups(builder, arrays, index[:depth], [(a, x.type.shape[a]) for a in axes]) if arrays else ()
    rest = iter(index[depth:])
    target = tuple(
        Value(f"@{axes.index(a)}") if a in axes else next(rest) * step[a] + start[a] for a in range(x.type.ndim)
    )
    _update(builder, node.output, x, target, value, index, "add" if node.attrs["add"] else "", found)


def write_slice(builder: Builder, node: Node) -> None:
    """A slice_update in place."""
    x, value = node.inputs
    index = builder.variables(value.type.shape)
    start, step = node.attrs["start"], node.attrs["step"]
    target = tuple(i * s + a for i, a, s in zip(index, start, step, strict=True))
    _update(builder, node.output, x, target, value, index, "", ())


def _update(
    builder: Builder, out: Var, x: Var, target: Target, value: Var, index: tuple[Affine, ...], combine: str,
    found: tuple[Lookup, ...],
) -> None:  # fmt: skip
    lookup_refs = len(builder.refs)
    expr = cast(builder.read(value, index), out.type.dtype)
    base = builder.materialised(x)
    memory = builder.program.memory(base)
    own = [r for r in builder.refs[lookup_refs:] if builder.program.memory(r.var) is memory]
    positions = [r for r in builder.refs[:lookup_refs] if builder.program.memory(r.var) is memory]
    if builder.order(index) and (positions or any(r.var is not base or r.index != target for r in own)):
        refs, visited, memo = builder.refs[:lookup_refs], builder.visited, builder.memo
        builder.forget()
        expr = cast(builder.read(builder.copied(value), index), out.type.dtype)
        builder.refs, builder.visited, builder.memo = [*refs, *builder.refs], [*visited, *builder.visited], memo
    builder.program.whole.add(out)
    builder.program.bases[out] = base
    builder.add(out, target, expr, builder.order(index), combine, frozenset(), found, base)


def chosen_slices(graph: Any, donated: Any) -> set[Node]:
    """The slice_updates to be done in place: few elements of a large array that others write to in place too, or
    that a loop owns, or the later ones of a chain."""
    owned = owners(graph, donated)
    chain: dict[Var, list[Node]] = {}
    chosen: set[Node] = set()
    for node in graph.nodes:
        if node.name != "slice_update" or not large(node.output.type) or not few(node):
            if node.name == "write" or (node.name == "reshape" and node.inputs[0] in owned):
                owned.add(node.output)
            continue
        links = chain[node.output] = [*chain.get(node.inputs[0], ()), node]
        if node.inputs[0] in owned or len(links) >= CHAIN:
            chosen.update(links)
            owned.add(node.output)
    return chosen


def few(node: Node) -> bool:
    """Whether a slice_update writes a small part of the array."""
    return guessed_size(node.inputs[1].type.shape) * FEW <= guessed_size(node.output.type.shape)
