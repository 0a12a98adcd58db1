"""Scheduling: a graph becomes loop nests over buffers.

`schedule` is a pure function from an `ir.Graph` to a `LoopProgram` (loops.py has its vocabulary). The road inside:
`build` turns nodes into statements (views become index maps), `fuse` places them into a forest of loops, `contract`
decides what is stored and what is computed again, `assemble` writes the program, `unroll` writes out small loops.
`printer` writes a program as pseudo-Python, `verify` checks it, `evaluate` runs it slowly.
"""

from tracegrad.schedule.loops import LoopProgram
from tracegrad.schedule.program import schedule, schedule_with_report
from tracegrad.schedule.report import NestReport

__all__ = ["LoopProgram", "NestReport", "schedule", "schedule_with_report"]
