"""Scheduling: a graph becomes loop nests over buffers.

`schedule` is a pure function from an `ir.Graph` to a `LoopProgram` (loops.py has its vocabulary); `printer` writes one
as pseudo-Python, `verify` checks it, `evaluate` runs it slowly.
"""

from tracegrad.schedule.loops import LoopProgram

__all__ = ["LoopProgram"]
