"""Functions that raise while they are recorded: what they had done by then stays done, as in eager code.

Nothing runs while a function is recorded, so its modifications would be lost with the recording. Errors that only a
recording raises are left out: the user runs the function again, eagerly or rewritten, and it does all of it then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracegrad.errors import LeavesTraceError, SymbolicValueError, UnsupportedError
from tracegrad.ir.sizes import active
from tracegrad.state import setting
from tracegrad.trace.tracer import Trace
from tracegrad.transforms.effects import Effects

_OF_RECORDINGS = (LeavesTraceError, SymbolicValueError, UnsupportedError)
_NAME = "_tracegrad_effects"


def note_effects(error: Exception, trace: Trace) -> None:
    """Keep with an error that ended a recording what the function had done, in numbers.

    Where a Tensor from outside has got a history, or numbers are not known, nothing is kept.
    """
    if isinstance(error, _OF_RECORDINGS) or trace.parent is not None or active.sizes is not None:
        return
    try:
        with setting(trace=trace):
            effects = trace.memory.effects()
            if any(e.value is not None and e.value.requires_grad for e in effects):
                return
            numbers = [None if e.var is None else trace.value(e.var) for e in effects]
    except Exception:  # of the state it was left in; the user's error is what counts
        return
    found = Effects(tuple(effects), tuple(range(len(effects))), (), (), (), frozenset(), False)
    setattr(error, _NAME, (found, numbers))


def carry_out_noted(error: Exception, leaves: Sequence[Any]) -> None:
    """Do what was noted, when the error goes to the user."""
    found, numbers = vars(error).pop(_NAME, (None, ()))
    if found is not None:
        found.carry_out(numbers, leaves)
