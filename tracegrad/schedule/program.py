"""The driver: graph → statements → placed statements → storage → LoopProgram."""

from __future__ import annotations

from types import MappingProxyType

from tracegrad.ir.graph import Graph
from tracegrad.schedule.assemble import Assembler
from tracegrad.schedule.buffers import BufferTable, sizes_of
from tracegrad.schedule.build import build
from tracegrad.schedule.contract import contract
from tracegrad.schedule.fuse import fuse
from tracegrad.schedule.loops import LoopProgram
from tracegrad.schedule.report import NestReport, report
from tracegrad.schedule.unroll import unroll


def schedule(graph: Graph) -> LoopProgram:
    """The loop nests that compute a graph. Pure; near-linear in the number of nodes."""
    return schedule_with_report(graph)[0]


def schedule_with_report(graph: Graph) -> tuple[LoopProgram, tuple[NestReport, ...]]:
    """The program, and for each of its top-level loops and calls what was fused into it and what it moves."""
    statements = build(graph)
    forest = fuse(statements)
    contraction = contract(forest)
    table = BufferTable(forest, contraction)
    assembler = Assembler(forest, contraction, table)
    body = assembler.run()
    outputs = tuple(table.of(v) for v in statements.outputs)
    program = LoopProgram(
        graph.name,
        tuple(table.buffers.values()),
        tuple(table.of(v) for v in graph.inputs),
        outputs,
        body,
        MappingProxyType(dict(sizes_of(graph.inputs))),
    )
    return unroll(program), report(program, assembler.nests)  # figures of the loops before small ones are written out
