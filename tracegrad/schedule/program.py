"""The driver: graph → statements → placed statements → storage → LoopProgram."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tracegrad.ir.graph import Graph
from tracegrad.schedule.assemble import Assembler, Nest
from tracegrad.schedule.blocking import block_rows
from tracegrad.schedule.buffers import BufferTable, sizes_of
from tracegrad.schedule.build import NOTHING, build
from tracegrad.schedule.contract import contract
from tracegrad.schedule.fuse import fuse
from tracegrad.schedule.loops import LoopProgram
from tracegrad.schedule.report import NestReport, report
from tracegrad.schedule.unroll import unroll


def schedule(graph: Graph) -> LoopProgram:
    """The loop nests that compute a graph. Pure; near-linear in the number of nodes."""
    return block_rows(unroll(_rolled(graph)[0]))


def schedule_body(graph: Graph, donated: Mapping[int, int]) -> LoopProgram:
    """The loop nests of a body, which runs many times. `donated` are the inputs that may be overwritten, each for the
    output that then lies in its memory."""
    return block_rows(unroll(_rolled(graph, donated)[0], repeated=True))


def schedule_with_report(graph: Graph) -> tuple[LoopProgram, tuple[NestReport, ...]]:
    """The program, and for each of its top-level loops and calls what was fused into it and what it moves.

    The figures are those before small loops are written out, so a nest that only has such loops is listed too.
    """
    program, nests = _rolled(graph)
    return block_rows(unroll(program)), report(program, nests)


def _rolled(graph: Graph, donated: Mapping[int, int] = NOTHING) -> tuple[LoopProgram, list[Nest]]:
    """The program with its small loops still loops, and its nests."""
    statements = build(graph, donated)
    forest = fuse(statements)
    contraction = contract(forest)
    table = BufferTable(forest, contraction)
    assembler = Assembler(forest, contraction, table)
    body = assembler.run()
    outputs = tuple(table.of(v) for v in statements.outputs)
    inputs = tuple(table.of(v) for v in graph.inputs)
    buffers = tuple(table.buffers.values())
    sizes = MappingProxyType(dict(sizes_of(graph.inputs)))
    return LoopProgram(graph.name, buffers, inputs, outputs, body, sizes), assembler.nests
