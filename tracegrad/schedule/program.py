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
from tracegrad.schedule.lanes import side_by_side
from tracegrad.schedule.loops import Loop, LoopProgram
from tracegrad.schedule.matmul import is_narrow
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
    """The program with its small loops still loops, and its nests. Narrow products are loops if all of them get into
    rows that are computed side by side."""
    if any(is_narrow(node) for node in graph.nodes):
        program, nests = _assembled(graph, donated, narrow=True)
        buffers = {b.name: b for b in program.buffers}
        homes = [n.statement for n in nests if any(is_narrow(node) for member in n.members for node in member.nodes)]
        if all(isinstance(home, Loop) and side_by_side(home, buffers) for home in homes):
            return program, nests
    return _assembled(graph, donated, narrow=False)


def _assembled(graph: Graph, donated: Mapping[int, int], narrow: bool) -> tuple[LoopProgram, list[Nest]]:
    statements = build(graph, donated, narrow)
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
