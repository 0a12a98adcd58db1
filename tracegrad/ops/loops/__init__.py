"""Loops and branches: operations whose nodes own the graphs of their bodies.

They are recorded by `tracegrad.trace.loops` and `tracegrad.control`; `passes/loop_adjoint.py` has their derivatives.
"""

from tracegrad.ops.loops.base import Region
from tracegrad.ops.loops.cond import Cond
from tracegrad.ops.loops.scan import Scan
from tracegrad.ops.loops.sized import Sized
from tracegrad.ops.loops.weaken import Weaken
from tracegrad.ops.loops.while_loop import While

__all__ = ["Cond", "Region", "Scan", "Sized", "Weaken", "While"]
