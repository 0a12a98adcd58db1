"""Loops and branches for users: `scan`, `fori_loop`, `while_loop`, `map`, `associative_scan`, `cond`, `switch`;
`checkpoint` for what their adjoints keep.

While a function is traced each becomes one node that owns its body's graph; otherwise they are plain Python loops and
branches, recorded operation by operation where gradients are wanted.
"""

from tracegrad.control.associative import associative_scan
from tracegrad.control.branches import cond, switch
from tracegrad.control.checkpoint import checkpoint
from tracegrad.control.counted import fori_loop, scan
from tracegrad.control.mapping import map
from tracegrad.control.while_loop import while_loop

__all__ = ["associative_scan", "checkpoint", "cond", "fori_loop", "map", "scan", "switch", "while_loop"]
