"""What each nest does: the nodes fused into it, the bytes it moves, its floating-point operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tracegrad.ir.dims import DimLike, product
from tracegrad.ir.graph import Node
from tracegrad.records import record
from tracegrad.schedule.loops import (
    Apply,
    Buffer,
    Call,
    Fill,
    Loop,
    LoopProgram,
    Read,
    Stmt,
    Store,
    Update,
    UpdateAt,
    region_of,
)
from tracegrad.schedule.rewrite import expressions, walk
from tracegrad.schedule.weights import weight_of

if TYPE_CHECKING:
    from tracegrad.schedule.assemble import Nest


@record
class NestReport:
    """One top-level loop or call: `kind` is its loop kind or kernel, `nodes` the graph nodes computed in it (a node
    may take part in several nests). Bytes count each array once; `flops` weighs transcendental functions as several
    operations. Figures are dimensions: integers, or polynomials in the symbolic sizes."""

    kind: str
    nodes: tuple[Node, ...]
    bytes_read: DimLike
    bytes_written: DimLike
    flops: DimLike
    stored: tuple[str, ...]


def report(program: LoopProgram, nests: Sequence[Nest]) -> tuple[NestReport, ...]:
    """A report for each top-level loop and call, in order."""
    buffers: Mapping[str, Buffer] = {b.name: b for b in program.buffers}
    return tuple(_report(nest, buffers) for nest in nests)


def _report(nest: Nest, buffers: Mapping[str, Buffer]) -> NestReport:
    s = nest.statement
    nodes = tuple(dict.fromkeys(node for member in nest.members for node in member.nodes))
    if isinstance(s, Call):
        return NestReport(
            s.kernel, nodes, _bytes(s.inputs, buffers), _bytes(s.outputs, buffers), _call_flops(s, buffers), s.outputs
        )
    assert isinstance(s, Loop)
    inside = list(walk((s,)))
    read = dict.fromkeys(e.buffer for each in inside for e in expressions(each) if isinstance(e, Read))
    written = dict.fromkeys(each.buffer for each in inside if isinstance(each, (Store, UpdateAt, Fill)))
    outside = [b for b in read if buffers[b].role != "local"]
    stored = tuple(b for b in written if buffers[b].role != "local")
    return NestReport(s.kind, nodes, _bytes(outside, buffers), _bytes(stored, buffers), _flops((s,)), stored)


def _bytes(names: Iterable[str], buffers: Mapping[str, Buffer]) -> DimLike:
    total: DimLike = 0
    for name in names:
        total = total + product(buffers[name].shape) * buffers[name].dtype.itemsize
    return total


def _flops(statements: Iterable[Stmt]) -> DimLike:
    total: DimLike = 0
    for s in statements:
        if isinstance(s, Loop):
            total = total + _flops(s.body) * s.extent
        total = total + isinstance(s, (Update, UpdateAt))
        total = total + sum(weight_of(e.op) for e in expressions(s) if isinstance(e, Apply))
    return total


def _call_flops(call: Call, buffers: Mapping[str, Buffer]) -> DimLike:
    if (region := region_of(call)) is not None:
        length: DimLike = region.node.attrs.get("length", 1)
        return length * sum((_flops(body.body) for body in region.bodies), start=0)
    out = product(buffers[call.outputs[0]].shape) if call.outputs else 0
    if call.kernel != "matmul":
        return out
    shape = buffers[call.inputs[0]].shape
    inner = shape[-2] if call.attrs.get("a_transposed") else shape[-1]
    return out * inner * 2


__all__ = ["NestReport", "report"]
