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
Place = tuple[DimLike, DimLike]  # where a lookup's position 0 lies on an axis, and how far the next one is from it
CHAIN = 4  # so many slice_updates in a row are done in place
FEW = 4  # a region is small if it is at most a quarter of the array


def lookups(
    builder: Builder, arrays: Sequence[Var], index: tuple[Affine, ...], extents: Sequence[tuple[int, DimLike]],
    places: Sequence[Place],
) -> tuple[Lookup, ...]:  # fmt: skip
    """The elements of integer arrays at `index`, to be checked against (axis, extent)."""
    whole, order = np.dtype(np.int64), builder.order(index)
    return tuple(
        Lookup(cast(builder.read(v, index), whole), extent, axis, order, *place)
        for v, (axis, extent), place in zip(arrays, extents, places, strict=True)
    )


def gather(builder: Builder, node: Node) -> None:
    source, *arrays = node.inputs
    index = builder.variables(node.output.type.shape)
    depth = arrays[0].type.ndim
    names = [f"@{k}" for k in range(len(arrays))]
    base, wanted, places = _behind_views(builder, source, (*map(variable, names), *index[depth:]))
    extents = list(enumerate(source.type.shape[: len(arrays)]))
    found = lookups(builder, arrays, index[:depth], extents, [places[name] for name in names])
    ref = Ref(builder.materialised(base), tuple(Value(at) if (at := _lookup_in(i)) else i for i in wanted))
    builder.refs.append(ref)
    builder.add(node.output, index, ref, builder.order(index), lookups=found)


def _behind_views(
    builder: Builder, var: Var, index: tuple[Index, ...]
) -> tuple[Var, tuple[Index, ...], dict[str, Place]]:
    """The array behind slices and transposes, which need not be copied to read a few elements, where they lie in it,
    and where its lookups do."""
    places = _places(index)
    assert places is not None
    while var not in builder.made and (node := builder.definitions.get(var)) is not None:
        lower = node.op.lower
        behind: tuple[Index, ...] | None = None
        if isinstance(lower, lowering.IndexMap):
            pieces = views.pieces_of(node, lower)
            if len(pieces) == 1 and not pieces[0].when and node.inputs[pieces[0].operand].type.dtype == var.type.dtype:
                values = {f"d{axis}": i for axis, i in enumerate(index)}
                behind = tuple(substitute(i, values) for i in pieces[0].index)
        elif isinstance(lower, lowering.Reshape) and views.only_units(var.type.shape, node.inputs[0].type.shape):
            behind = views.reshaped(index, var.type.shape, node.inputs[0].type.shape, builder.extents)
        found = None if behind is None else _places(behind)
        if found is None or found.keys() != places.keys():
            break
        assert behind is not None
        builder.visited.append(node)
        var, index, places = node.inputs[0], behind, found
    return var, index, places


def _places(index: tuple[Index, ...]) -> dict[str, Place] | None:
    """Where the lookups that an index names lie on its axes; None if one of them is not alone there."""
    found: dict[str, Place] = {}
    for i in index:
        name = _lookup_in(i)
        if name is None:
            continue
        if not isinstance(i, Affine) or len(i.terms) > 1 or name in found:
            return None
        found[name] = i.offset, i.terms[0][1]
    return found


def _lookup_in(index: Index) -> str | None:
    """The lookup that an index is computed from."""
    affine = index if isinstance(index, Affine) else index.affine
    return next((name for name, _ in affine.terms if name.startswith("@")), None)


def scatter(builder: Builder, node: Node) -> None:
    values, *arrays = node.inputs
    index = builder.variables(values.type.shape)
    depth = arrays[0].type.ndim
    extents = list(enumerate(node.output.type.shape[: len(arrays)]))
    found = lookups(builder, arrays, index[:depth], extents, [(0, 1)] * len(arrays))
    target: Target = (*(Value(f"@{k}") for k in range(len(arrays))), *index[depth:])
    expr = cast(builder.read(values, index), node.output.type.dtype)
    reduced = frozenset(v for i in index[:depth] if (v := variable_of(i)))
    builder.program.whole.add(node.output)
    builder.add(node.output, target, expr, builder.order(index), "add", reduced, found)


def write(builder: Builder, node: Node) -> None:
    """The region's elements as a statement whose value is the former array's memory."""
    x, value, *arrays = node.inputs
    axes, extents, start, step = (node.attrs[name] for name in ("axes", "extents", "start", "step"))
    index = builder.variables(value.type.shape)
    depth = arrays[0].type.ndim if arrays else 0
    places = [(start[a], step[a]) for a in axes]
    found = lookups(builder, arrays, index[:depth], list(zip(axes, extents, strict=True)), places)
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
        with builder.aside():
            copy = builder.copied(value)
        del builder.refs[lookup_refs:]
        expr = cast(builder.read(copy, index), out.type.dtype)
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
