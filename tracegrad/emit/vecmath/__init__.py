"""Elementary functions as branch-free scalar LLVM IR that the loop vectoriser turns into SIMD code.

`emit("exp", builder, x)` returns exp(x) for a float or double; FUNCTIONS lists the names. docs/vecmath.md states the
accuracy and the method of each.
"""

from __future__ import annotations

from tracegrad.emit.vecmath import erf, exp_log, hyperbolic, inverse_trig, power, quantile, trig
from tracegrad.emit.vecmath.registry import ENTRIES, emit

FUNCTIONS: frozenset[str] = frozenset(ENTRIES)

__all__ = ["FUNCTIONS", "emit"]
